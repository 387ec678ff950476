# One job: the words of every file that is this job's, a line a file.
# The files are dealt out like cards, in the order of their names.
set -eu
export LC_ALL=C
cd "$SOURCE"
find . -type f | sort |
awk -v job="$WEIR_JOB_COOKIE" -v jobs="$WEIR_TASK_JOB_COUNT" '(NR - 1) % jobs == job' |
while IFS= read -r file; do
    # A word is a run of letters: what else wc counts as one differs among systems.
    printf '%s %s\n' "$(tr -cs 'A-Za-z' ' ' < "$file" | wc -w)" "$file"
done
