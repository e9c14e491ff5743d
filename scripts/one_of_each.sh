#!/usr/bin/env bash
# Does what CONTRIBUTING.md says under "How to add", in a copy of the checkout: adds an expression operator, a stage, an update
# operator and a command, compiles them, and runs the scripts that ask for them. It ends with the files and lines that each took.
# The place of each edit is found by the example that the recipe names.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/quarry/target}"
copy=$(mktemp -d)
trap 'rm -rf -- "$copy"' EXIT
(cd "$root" && git ls-files -z | xargs -0 cp --parents -t "$copy" --no-dereference)
cd "$copy"
git init -q . && git add -A

# after FILE PATTERN TEXT: puts TEXT behind the first line that has PATTERN.
after() {
    grep -q -- "$2" "$1" || { echo "one_of_each: nothing in $1 says $2" >&2 && exit 1; }
    awk -v pattern="$2" -v text="$3" '{ print } !done && index($0, pattern) { print text; done = 1 }' "$1" >"$1.new"
    mv "$1.new" "$1"
}

# took WHAT: the files and lines since the last call.
took() {
    git add -AN
    printf '    %-22s %s\n' "$1" "$(git diff --shortstat)"
    git add -A
}

query=crates/query/src

after $query/expression/operators.rs 'row("$isNumber"' '    row("$isText", Exactly(1), objects::is_text),'
cat >>$query/expression/objects.rs <<'CODE'

pub(super) fn is_text<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    Ok(call.argument(0, context)?.as_str().is_some().into())
}
CODE
printf '\neval {"$isText": "$a"}\n{a: "x"} => true\n{a: 1} => false\n' >>crates/query/tests/pipeline_scripts/expressions.txt
took "expression operator"

# Rows of stages and of expressions are sorted by name.
after $query/pipeline/mod.rs 'mod nested_field;' 'mod pass;'
after $query/pipeline/stages.rs 'unsupported("$out")' '    row("$pass", super::pass::parse),'
cat >$query/pipeline/pass.rs <<'CODE'
//! `$pass`: hands every document on.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::DocumentBuilder;

use super::execution::{Running, Upstream};
use super::stage::{Reads, Specification, Stage, Stages, one};
use crate::error::Result;

#[derive(Debug)]
struct Pass;

pub(super) fn parse(_: Specification<'_>) -> Result<Stages> {
    Ok(one(Pass))
}

impl Stage for Pass {
    fn name(&self) -> &'static str {
        "$pass"
    }

    fn explain(&self, out: &mut DocumentBuilder<'_>) {
        out.append(self.name(), true);
    }

    fn add_fields_read(&self, _: &mut BTreeSet<String>) -> Reads {
        Reads::Passes
    }

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn Running> {
        Box::new(Passing)
    }
}

struct Passing;

impl Running for Passing {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        upstream.next(out)
    }
}
CODE
printf '\nrun [{"$pass": true}]\n[{a: 1}, {a: 2}] => [{a: 1}, {a: 2}]\n' >>crates/query/tests/pipeline_scripts/stages.txt
took "stage"

after $query/update/operators.rs 'row("$pop"' '    row("$default", |_, value| Ok(Modifier::Default(value.to_value()))),'
after $query/update/modifier.rs '    Unset,' '    Default(Value),'
after $query/update/leaf.rs 'Modifier::Unset | Modifier::RenamedAway => {}' \
    '            Modifier::Default(_) => out.extend_from_slice(element.as_bytes()),'
after $query/update/leaf.rs 'Modifier::Mul(by) => put(name, arithmetic::zero_like' \
    '            Modifier::Default(value) => put(name, value.as_raw(), out),'
printf '\nupdate {$default: {a: 1}}\n{_id: 1} => {"_id":1,"a":1}\n{_id: 1, a: 2} => same\n' \
    >>crates/query/tests/scripts/updating.txt
took "update operator"

after crates/server/src/commands/mod.rs 'mod drop_indexes;' 'mod echo;'
after crates/server/src/commands/mod.rs '    &drop_indexes::COMMAND,' '    &echo::COMMAND,'
sed -e 's/ping/echo/g' -e 's/is_in_api_1: true/is_in_api_1: false/' crates/server/src/commands/ping.rs \
    >crates/server/src/commands/echo.rs
took "command"

cargo check -q --release -p quarry-server
cargo test -q -p quarry-query --test pipeline_scripts --test language_scripts
