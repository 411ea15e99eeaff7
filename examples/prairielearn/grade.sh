#!/usr/bin/env bash
# PrairieLearn runs this in the image, and reads /grade/results/results.json. Put it in the question's tests/ folder.
set -u
mkdir -p /grade/results
fashion-infer grade /grade/student --rubric /grade/tests/rubric.toml --for prairielearn --out /grade/results
if [ ! -s /grade/results/results.json ]; then
  echo '{"gradable": false, "message": "The grader failed; nothing is wrong with the submission."}' \
    > /grade/results/results.json
fi
