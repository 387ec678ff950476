# Prints the word count of each of this job's files, one file a line.
# The files are assigned to jobs round-robin, in the order of their names.
set -eu
export LC_ALL=C
cd "$SOURCE"
find . -type f | sort |
awk -v job="$WEIR_JOB_COOKIE" -v jobs="$WEIR_TASK_JOB_COUNT" '(NR - 1) % jobs == job' |
while IFS= read -r file; do
    # A word is a run of letters: what else wc counts as a word differs between systems.
    printf '%s %s\n' "$(tr -cs 'A-Za-z' ' ' < "$file" | wc -w)" "$file"
done
