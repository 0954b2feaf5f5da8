#!/bin/sh
# The packages of this image as SPDX 2.3 JSON, on standard output: sbom.sh VERSION ["NAME VERSION" of what dpkg does not know]...
set -eu
version=${1:?sbom.sh: expected the version}
shift
package() {  # name, version, supplier, SPDX id
  printf '%s\n  {"SPDXID": "SPDXRef-%s", "name": "%s", "versionInfo": "%s", "supplier": "%s",' "$comma" "$4" "$1" "$2" "$3"
  printf ' "downloadLocation": "NOASSERTION", "filesAnalyzed": false}'
  comma=,
}
printf '{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "hugectr_lite-%s",\n' "$version"
printf ' "documentNamespace": "https://spdx.org/spdxdocs/hugectr_lite-%s",\n' "$version"
printf ' "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": ["Tool: sbom.sh"]},\n "packages": ['
comma=
package hugectr_lite "$version" NOASSERTION Package-hugectr-lite
for other in "$@"; do package "${other% *}" "${other#* }" "Organization: NVIDIA" "Package-${other% *}"; done
list=$(dpkg-query -W -f '${Package} ${Version}\n' | LC_ALL=C sort)
while read -r name number; do
  package "$name" "$number" "Organization: Debian" "Package-$(printf %s "$name" | tr -c 'a-zA-Z0-9.-' -)"
done <<EOF
$list
EOF
printf '\n ]}\n'
