#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Subjects of commits: "area: imperative summary", at most 72 columns, no full stop. Checks the
# commits after the one that added this file, as far as the clone has them. The rule is first tried
# on subjects that break it.
# Usage: tests/lint/commits.sh
set -euo pipefail
export LC_ALL=C.UTF-8

# Reads "HASH SUBJECT" and prints a line for each subject that breaks the rule. Verbs that only look
# like a past or continuous form are listed.
check() {
    awk '
    function complain(why) { printf "commit %s: \"%s\": %s\n", hash, subject, why; bad = 1 }
    BEGIN { n = split("add embed feed need proceed shed speed bring ring string swing", list, " ")
            for (i = 1; i <= n; i++) plain[list[i]] = 1 }
    {
        hash = $1
        subject = substr($0, length($1) + 2)
        if (length(subject) > 72) complain(length(subject) " columns, at most 72")
        if (subject !~ /^[A-Za-z0-9_.\/{}*, -]+: [^ ]/) { complain("no \"area: \" in front"); next }
        summary = subject
        sub(/^[^:]*: /, "", summary)
        verb = summary
        sub(/[ ,].*/, "", verb)
        if (summary ~ /\.$/) complain("ends in a full stop")
        if (summary ~ /^[A-Z][a-z]/) complain("the summary begins with a capital letter")
        if (verb ~ /(ed|ing)$/ && !(verb in plain)) complain("\"" verb "\" is not imperative")
    }
    END { exit bad }'
}

while read -r subject; do
    ! check <<<"1234567 $subject" >/dev/null ||
        { echo "commits.sh: rule is blind: $subject" >&2; exit 1; }
done <<'EOF'
Add a feature
nvme: added a feature
nvme: adding a feature
nvme: Add a feature
nvme: add a feature.
nvme: add a feature whose name goes on and on until the line has more columns
EOF
check <<'EOF'
1234567 nvme/soft: refuse a CID twice in one doorbell
1234567 boot, cache: bring counters to an end in time
EOF

first=$(git log --diff-filter=A --format=%H -- tests/lint/commits.sh 2>/dev/null | tail -n 1) || first=
[ -n "$first" ] || { echo "skipped: lint commits: the history is not here"; exit 0; }
git log --no-merges --format='%h %s' "$first..HEAD" | check
