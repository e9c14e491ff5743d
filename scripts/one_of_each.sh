#!/usr/bin/env bash
# Does what CONTRIBUTING.md says under "How to add", in a copy of the checkout: adds an expression operator, a stage, an operator
# of updates and one of filters, an accumulator and a command, compiles them, and runs the scripts that ask for them. It ends with the files and lines that each took.
# The place of each edit is found by the example that the recipe names.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# A directory of its own: cargo tells crates of one name apart neither by their folder nor, where files are older, by what is in them.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/quarry/target}/one-of-each"
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
after $query/pipeline/stages.rs 'writing("$out"' '    row("$pass", super::pass::parse),'
cat >$query/pipeline/pass.rs <<'CODE'
//! `$pass`: hands every document on.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_bson::DocumentBuilder;

use super::execution::{RunningStage, Upstream};
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

    fn start(self: Arc<Self>, _: &[Arc<dyn Stage>]) -> Box<dyn RunningStage> {
        Box::new(Passing)
    }
}

struct Passing;

impl RunningStage for Passing {
    fn next(&mut self, upstream: &mut Upstream<'_, '_>, out: &mut Vec<u8>) -> Result<bool> {
        upstream.next(out)
    }
}
CODE
printf '\nrun [{"$pass": true}]\n[{a: 1}, {a: 2}] => [{a: 1}, {a: 2}]\n' >>crates/query/tests/pipeline_scripts/stages.txt
took "stage"

after $query/update/operators.rs 'mod current_date;' 'mod default;'
after $query/update/operators.rs 'row::<pop::Pop>' '    row::<default::Default>("$default"),'
cat >$query/update/operators/default.rs <<'CODE'
//! `$default`: a value for a field that is missing.

use quarry_bson::{RawValue, Value};

use crate::error::Result;
use crate::expression::ExpressionContext;
use crate::field_path::FieldPath;
use crate::update::modifier::{Found, FromArgument, Modifier, Target};
use crate::update::write::put;

#[derive(Debug)]
pub(super) struct Default(Value);

impl FromArgument for Default {
    fn from_argument(
        _: &FieldPath,
        argument: RawValue<'_>,
        _: &ExpressionContext,
    ) -> Result<Default> {
        Ok(Default(argument.to_value()))
    }
}

impl Modifier for Default {
    fn modify(&self, found: &Found<'_>, _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        found.keep(out);
        Ok(())
    }

    fn creates(&self, _: &Target<'_>) -> bool {
        true
    }

    fn create(&self, name: &[u8], _: &Target<'_>, out: &mut Vec<u8>) -> Result<()> {
        put(name, self.0.as_raw(), out);
        Ok(())
    }
}
CODE
printf '\nupdate {$default: {a: 1}}\n{_id: 1} => {"_id":1,"a":1}\n{_id: 1, a: 2} => same\n' \
    >>crates/query/tests/scripts/updating.txt
took "update operator"

after $query/matcher/operators.rs '("$options", options),' '    ("$positive", |of| test(of, super::positive::Positive)),'
after $query/matcher/mod.rs 'mod parse;' 'mod positive;'
cat >$query/matcher/positive.rs <<'CODE'
//! `$positive`: a number above zero.

use quarry_bson::RawValue;

use super::value_test::ValueTest;
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Positive;

impl ValueTest for Positive {
    fn passes(&self, value: RawValue<'_>) -> Result<bool> {
        Ok(value.as_f64_lossy().is_some_and(|number| number > 0.0))
    }
}
CODE
printf '\nmatch {a: {$positive: true}}\n{a: 3} => yes\n{a: -3} => no\n{} => no\n' >>crates/query/tests/scripts/matching.txt
took "operator of filters"

after $query/pipeline/accumulators/table.rs 'row::<First>' '    row::<Given>("$given"),'
after $query/pipeline/accumulators/table.rs 'use super::first_and_last' 'use super::given::Given;'
after $query/pipeline/accumulators/mod.rs 'mod first_and_last;' 'mod given;'
cat >$query/pipeline/accumulators/given.rs <<'CODE'
//! `$given`: how many documents have a value.

use quarry_bson::{DocumentBuilder, RawValue};

use super::accumulator::Accumulator;
use crate::error::Result;

#[derive(Debug, Default)]
pub struct Given(i64);

impl Accumulator for Given {
    fn add(&mut self, value: Option<RawValue<'_>>) -> Result<usize> {
        self.0 += i64::from(value.is_some());
        Ok(0)
    }

    fn write(&self, name: &str, out: &mut DocumentBuilder<'_>) -> Result<()> {
        out.append(name, self.0);
        Ok(())
    }
}
CODE
printf '\nrun [{"$group": {_id: 0, n: {"$given": "$v"}}}]\n[{v: 1}, {}] => [{_id: 0, n: NumberLong(1)}]\n' \
    >>crates/query/tests/pipeline_scripts/stages.txt
took "accumulator"

after crates/server/src/commands/mod.rs 'mod drop_indexes;' 'mod echo;'
after crates/server/src/commands/mod.rs '    &drop_indexes::COMMAND,' '    &echo::COMMAND,'
sed -e 's/ping/echo/g' -e 's/is_in_api_1: true/is_in_api_1: false/' crates/server/src/commands/ping.rs \
    >crates/server/src/commands/echo.rs
took "command"

cargo check -q -p quarry-server --no-default-features --features mdbx
cargo test -q -p quarry-query --test pipeline_scripts --test language_scripts
