#!/usr/bin/env bash
# Gradescope runs this once, as root, when the autograder's image is built.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends build-essential bubblewrap python3 python3-venv
python3 -m venv /opt/fashion-infer
# A wheel from `make wheel`, next to this file in the zip.
/opt/fashion-infer/bin/pip install "$(ls /autograder/source/fashion_infer-*-x86_64.whl)[grade]"
