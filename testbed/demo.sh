#!/bin/sh
# What there is to see so far, in one go: a reading through every embodiment.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

echo "A reading becomes a binary ioMessage:"
headgate message encode --publisher boiler --info-type temperature --info-format Cel/text --content 21.5 \
    --tag "Boiler 3, supply" --to binary --output reading.bin
od -A d -t x1z reading.bin
echo
echo "The same message for people:"
headgate message decode reading.bin
echo "For any other application, as JSON:"
headgate message convert --pretty reading.bin
echo
echo "There and back through XML:"
headgate message convert --to json reading.bin >direct.json
headgate message convert --to xml reading.bin | headgate message convert --to json >by-way-of-xml.json
cmp direct.json by-way-of-xml.json
echo "identical"
echo
echo "This is the first wire format; the gateway around it is being built."
