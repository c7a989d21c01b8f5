#!/bin/sh
# A program that knows nothing of the library, four ways.
#
#   $ ./preload.sh
set -e
program="${PYTHON:-python3} numpy_matmul.py 64 512"
gpugemm run $program                                              # at the end a table of who served its calls
gpugemm run --mode=cpu $program                                   # the same on the CPU
gpugemm run --trace=calls.log --stats=0 $program                  # one line per call, into a file
gpugemm run --report=report.html --compare $program               # an HTML page that shows where the time went
