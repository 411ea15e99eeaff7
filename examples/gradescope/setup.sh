#!/usr/bin/env bash
# Gradescope runs this once, as root, when the autograder's image is built.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends build-essential bubblewrap python3 python3-venv
python3 -m venv /opt/fashion-infer
/opt/fashion-infer/bin/pip install 'fashion-infer[grade]'
