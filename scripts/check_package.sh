#!/usr/bin/env bash
# Builds the package twice, compares the two byte for byte, and tries it as users get it: the wheel and the sdist, each in
# an empty environment of each Python that is named, away from this repository. Needs `pip install build twine cyclonedx-bom`.
#
#     bash scripts/check_package.sh python3.11 python3.12 python3.13
#
# Writes dist/: what is to be uploaded, and bom.json, the list of what an installation brings (CycloneDX).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for build in first second; do # from what is committed, so that no file of the working tree slips in
  mkdir "$work/$build"
  git archive HEAD | tar -x -C "$work/$build"
  python -m build --outdir "$work/dist-$build" "$work/$build" >/dev/null
done
diff -r "$work/dist-first" "$work/dist-second"
python -m twine check --strict "$work"/dist-first/*

cd "$work"
printf 'I love Korea\nThe weather is nice\n' >texts.txt
for python in "${@:-python3}"; do
  for package in dist-first/*.whl dist-first/*.tar.gz; do
    rm -rf environment
    "$python" -m venv environment
    environment/bin/pip install -q -c "$root/constraints.txt" "$package"
    environment/bin/minibert embed --file texts.txt -o vectors.npy --force
    environment/bin/minibert fill-mask "Paris is the capital of [MASK]." | head -n 1
    environment/bin/python -c "import numpy; assert len(numpy.load('vectors.npy')) == 2"
    environment/bin/pip check
    echo "$("$python" --version): $(basename "$package") works"
  done
done

rm -rf "$root/dist"
mv dist-first "$root/dist"
python -m cyclonedx_py environment --output-file "$root/dist/bom.json" environment
