# hits.sh DIRECTORY COUNT: fails unless every search below DIRECTORY found hits for COUNT queries.
for results in "$1"/found*/results.tsv; do
    found=$(cut -f1 "$results" | sort -u | wc -l)
    if [ "$found" -ne "$2" ]; then
        echo "$results: hits for $found of $2 queries" >&2
        exit 1
    fi
done
