//! The operators by name: a row says which arguments an operator takes and what evaluates it.
//!
//! A new operator is a row here, a function in a file that holds its like (or a file of its own), and a section of
//! `tests/pipeline_scripts/expressions.txt`.

use super::tree::Arguments::{self, Any, Between, Exactly, Parsed};
use super::tree::{Function, Operator};
use super::{
    arithmetic, arrays, comparison, conditional, conversion, dates, fold, iteration, literal,
    objects, rounding, strings, substrings,
};

/// The operator of that name, `$` included.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    let place = OPERATORS.binary_search_by_key(&name, |operator| operator.name);
    place.ok().map(|place| &OPERATORS[place])
}

const fn row(name: &'static str, arguments: Arguments, evaluate: Function) -> Operator {
    Operator {
        name,
        arguments,
        evaluate,
    }
}

/// Sorted by name: `find` searches by halves.
static OPERATORS: &[Operator] = &[
    row("$abs", Exactly(1), rounding::abs),
    row("$add", Any, arithmetic::add),
    row("$and", Any, conditional::and),
    row("$arrayElemAt", Exactly(2), arrays::element_at),
    row("$arrayToObject", Exactly(1), objects::array_to_object),
    row("$avg", Any, fold::avg),
    row("$ceil", Exactly(1), rounding::ceil),
    row("$cmp", Exactly(2), comparison::cmp),
    row("$concat", Any, strings::concat),
    row("$concatArrays", Any, arrays::concat),
    row("$cond", Parsed(conditional::parse_cond), conditional::cond),
    row(
        "$const",
        Parsed(literal::parse_literal),
        literal::evaluated_at_parse,
    ),
    row("$dateAdd", Parsed(dates::parse_add), dates::add),
    row(
        "$dateDiff",
        Parsed(dates::parse_difference),
        dates::difference,
    ),
    row(
        "$dateFromParts",
        Parsed(dates::parse_from_parts),
        dates::from_parts,
    ),
    row(
        "$dateFromString",
        Parsed(dates::parse_from_string),
        dates::from_string,
    ),
    row("$dateSubtract", Parsed(dates::parse_add), dates::subtract),
    row(
        "$dateToParts",
        Parsed(dates::parse_to_parts),
        dates::to_parts,
    ),
    row(
        "$dateToString",
        Parsed(dates::parse_to_string),
        dates::to_string,
    ),
    row("$dateTrunc", Parsed(dates::parse_truncate), dates::truncate),
    row(
        "$dayOfMonth",
        Parsed(dates::parse_part),
        dates::day_of_month,
    ),
    row("$dayOfWeek", Parsed(dates::parse_part), dates::day_of_week),
    row("$dayOfYear", Parsed(dates::parse_part), dates::day_of_year),
    row("$divide", Exactly(2), arithmetic::divide),
    row("$eq", Exactly(2), comparison::eq),
    row("$exp", Exactly(1), arithmetic::exp),
    row(
        "$filter",
        Parsed(iteration::parse_filter),
        iteration::filter,
    ),
    row("$first", Exactly(1), arrays::first),
    row("$floor", Exactly(1), rounding::floor),
    row("$gt", Exactly(2), comparison::gt),
    row("$gte", Exactly(2), comparison::gte),
    row("$hour", Parsed(dates::parse_part), dates::hour),
    row(
        "$ifNull",
        Parsed(conditional::parse_if_null),
        conditional::if_null,
    ),
    row("$in", Exactly(2), arrays::contains),
    row("$indexOfArray", Between(2, 4), arrays::index_of),
    row("$isArray", Exactly(1), arrays::is_array),
    row("$isNumber", Exactly(1), objects::is_number),
    row(
        "$isoDayOfWeek",
        Parsed(dates::parse_part),
        dates::iso_day_of_week,
    ),
    row("$isoWeek", Parsed(dates::parse_part), dates::iso_week),
    row(
        "$isoWeekYear",
        Parsed(dates::parse_part),
        dates::iso_week_year,
    ),
    row("$last", Exactly(1), arrays::last),
    row(
        "$let",
        Parsed(iteration::parse_let),
        iteration::evaluate_let,
    ),
    row(
        "$literal",
        Parsed(literal::parse_literal),
        literal::evaluated_at_parse,
    ),
    row("$ln", Exactly(1), arithmetic::ln),
    row("$log", Exactly(2), arithmetic::log),
    row("$log10", Exactly(1), arithmetic::log10),
    row("$lt", Exactly(2), comparison::lt),
    row("$lte", Exactly(2), comparison::lte),
    row("$map", Parsed(iteration::parse_map), iteration::map),
    row("$max", Any, fold::max),
    row("$mergeObjects", Any, objects::merge_objects),
    row(
        "$millisecond",
        Parsed(dates::parse_part),
        dates::millisecond,
    ),
    row("$min", Any, fold::min),
    row("$minute", Parsed(dates::parse_part), dates::minute),
    row("$mod", Exactly(2), arithmetic::modulo),
    row("$month", Parsed(dates::parse_part), dates::month),
    row("$multiply", Any, arithmetic::multiply),
    row("$ne", Exactly(2), comparison::ne),
    row("$not", Exactly(1), conditional::not),
    row("$objectToArray", Exactly(1), objects::object_to_array),
    row("$or", Any, conditional::or),
    row("$pow", Exactly(2), arithmetic::pow),
    row("$range", Between(2, 3), arrays::range),
    row(
        "$reduce",
        Parsed(iteration::parse_reduce),
        iteration::reduce,
    ),
    row("$reverseArray", Exactly(1), arrays::reverse),
    row("$round", Between(1, 2), rounding::round),
    row("$second", Parsed(dates::parse_part), dates::second),
    row("$size", Exactly(1), arrays::size),
    row("$slice", Between(2, 3), arrays::slice),
    row("$split", Exactly(2), strings::split),
    row("$sqrt", Exactly(1), arithmetic::sqrt),
    row("$stdDevPop", Any, fold::deviation_of_population),
    row("$stdDevSamp", Any, fold::deviation_of_sample),
    row("$strLenBytes", Exactly(1), strings::len_bytes),
    row("$strLenCP", Exactly(1), strings::len_code_points),
    row("$strcasecmp", Exactly(2), strings::compare_ignoring_case),
    row("$substr", Exactly(3), substrings::by_bytes),
    row("$substrBytes", Exactly(3), substrings::by_bytes),
    row("$substrCP", Exactly(3), substrings::by_code_points),
    row("$subtract", Exactly(2), arithmetic::subtract),
    row("$sum", Any, fold::sum),
    row(
        "$switch",
        Parsed(conditional::parse_switch),
        conditional::switch,
    ),
    row("$toBool", Exactly(1), conversion::to_bool),
    row("$toDecimal", Exactly(1), conversion::to_decimal),
    row("$toDouble", Exactly(1), conversion::to_double),
    row("$toInt", Exactly(1), conversion::to_int),
    row("$toLong", Exactly(1), conversion::to_long),
    row("$toLower", Exactly(1), strings::to_lower),
    row("$toObjectId", Exactly(1), conversion::to_object_id),
    row("$toString", Exactly(1), conversion::to_string),
    row("$toUpper", Exactly(1), strings::to_upper),
    row("$trunc", Between(1, 2), rounding::trunc),
    row("$tsIncrement", Exactly(1), dates::timestamp_increment),
    row("$tsSecond", Exactly(1), dates::timestamp_second),
    row("$type", Exactly(1), objects::type_of),
    row("$week", Parsed(dates::parse_part), dates::week),
    row("$year", Parsed(dates::parse_part), dates::year),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_is_found_by_its_name() {
        for operator in OPERATORS {
            let found = find(operator.name).map(|found| found.name);
            assert_eq!(
                found,
                Some(operator.name),
                "the rows are not sorted by name"
            );
            assert!(operator.name.starts_with('$'), "{}", operator.name);
        }
    }
}
