# copy.sh SOURCE DESTINATION: copies the files of a directory by dd, one after another.
set -e
for file in "$1"/*; do
    dd if="$file" of="$2/${file##*/}" bs=1M status=none
done
