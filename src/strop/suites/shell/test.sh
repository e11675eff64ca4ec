#!/bin/bash
# Judges the work folder against /tests/rules, with builtins alone: no program that an agent could have
# replaced is asked for anything. Links are refused wherever they stand on a path, so that nobody's answer
# is a link to the expected one.
root=/app
say() { printf '%s\n' "$*"; reward=0; }

plain() {
  local path=$root part
  local IFS=/
  for part in $1; do
    path=$path/$part
    [[ -L $path ]] && return 1
  done
  [[ -f $path ]]
}

content() {
  # read succeeds only at its delimiter: a NUL byte, which no file of these tasks holds
  ! IFS= read -r -d '' "$1" < "$2"
}

trim() {
  while [[ ${!1} == *[$'\n '] ]]; do printf -v "$1" '%s' "${!1%?}"; done
}

reward=1
while read -r rule path; do
  case $rule in
    gone) [[ ! -e $root/$path && ! -L $root/$path ]] || say "$path is still there" ;;
    exec) [[ -x $root/$path ]] || say "$path is not executable" ;;
    same | text)
      if ! plain "$path"; then
        say "$path is not a regular file"
        continue
      fi
      content found "$root/$path" || { say "$path holds a NUL byte"; continue; }
      content wanted "/tests/want/$path"
      if [[ $rule == text ]]; then
        trim found
        trim wanted
      fi
      [[ $found == "$wanted" ]] || say "$path holds something else than it should"
      ;;
  esac
done < /tests/rules
printf '%s\n' "$reward" > /logs/verifier/reward.txt
