//! The operators by name: a row says which arguments an operator takes and what evaluates it.
//!
//! A new operator is a row here, a function in a file that holds its like (or a file of its own), and a section of
//! `tests/pipeline_scripts/expressions.txt`.

use super::tree::Arguments::{self, Any, Between, Exactly, Parsed};
use super::tree::{Function, Operator};
use super::{
    arithmetic, array_ends, arrays, bitwise, comparison, conditional, conversion, dates, fields,
    fold, hashing, iteration, literal, meta, objects, quantiles, random, regexes, replacing,
    rounding, searching, sets, sizes, sort_array, strings, substrings, trigonometry, trimming, zip,
};

/// The operator of that name, `$` included.
pub(super) fn find(name: &str) -> Option<&'static Operator> {
    let place = OPERATORS.binary_search_by_key(&name, |operator| operator.name);
    place.ok().map(|place| &OPERATORS[place])
}

/// The operators by name.
pub(super) fn names() -> Vec<&'static str> {
    OPERATORS.iter().map(|operator| operator.name).collect()
}

const fn row(name: &'static str, arguments: Arguments, evaluate: Function) -> Operator {
    Operator {
        name,
        arguments,
        evaluate,
        varies: false,
    }
}

/// Sorted by name: `find` searches by halves.
static OPERATORS: &[Operator] = &[
    row("$abs", Exactly(1), rounding::abs),
    row("$acos", Exactly(1), trigonometry::acos),
    row("$acosh", Exactly(1), trigonometry::acosh),
    row("$add", Any, arithmetic::add),
    row("$allElementsTrue", Exactly(1), sets::all_true),
    row("$and", Any, conditional::and),
    row("$anyElementTrue", Exactly(1), sets::any_true),
    row("$arrayElemAt", Exactly(2), arrays::element_at),
    row("$arrayToObject", Exactly(1), objects::array_to_object),
    row("$asin", Exactly(1), trigonometry::asin),
    row("$asinh", Exactly(1), trigonometry::asinh),
    row("$atan", Exactly(1), trigonometry::atan),
    row("$atan2", Exactly(2), trigonometry::atan2),
    row("$atanh", Exactly(1), trigonometry::atanh),
    row("$avg", Any, fold::avg),
    row("$binarySize", Exactly(1), sizes::of_binary),
    row("$bitAnd", Any, bitwise::and),
    row("$bitNot", Exactly(1), bitwise::not),
    row("$bitOr", Any, bitwise::or),
    row("$bitXor", Any, bitwise::xor),
    row("$bsonSize", Exactly(1), sizes::of_document),
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
    row(
        "$convert",
        Parsed(conversion::parse_convert),
        conversion::convert_to,
    ),
    row("$cos", Exactly(1), trigonometry::cos),
    row("$cosh", Exactly(1), trigonometry::cosh),
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
    row(
        "$degreesToRadians",
        Exactly(1),
        trigonometry::degrees_to_radians,
    ),
    row("$divide", Exactly(2), arithmetic::divide),
    row("$eq", Exactly(2), comparison::eq),
    row("$exp", Exactly(1), arithmetic::exp),
    row(
        "$filter",
        Parsed(iteration::parse_filter),
        iteration::filter,
    ),
    row("$first", Exactly(1), arrays::first),
    row("$firstN", Parsed(array_ends::parse), array_ends::first),
    row("$floor", Exactly(1), rounding::floor),
    row("$getField", Parsed(fields::parse_get), fields::get),
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
    row("$indexOfBytes", Between(2, 4), searching::by_bytes),
    row("$indexOfCP", Between(2, 4), searching::by_code_points),
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
    row("$lastN", Parsed(array_ends::parse), array_ends::last),
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
    row("$ltrim", Parsed(trimming::parse), trimming::left),
    row("$map", Parsed(iteration::parse_map), iteration::map),
    row("$max", Any, fold::max),
    row("$maxN", Parsed(array_ends::parse), array_ends::greatest),
    row("$median", Parsed(quantiles::parse), quantiles::evaluate),
    row("$mergeObjects", Any, objects::merge_objects),
    Operator {
        varies: true,
        ..row("$meta", Parsed(meta::parse), meta::meta)
    },
    row(
        "$millisecond",
        Parsed(dates::parse_part),
        dates::millisecond,
    ),
    row("$min", Any, fold::min),
    row("$minN", Parsed(array_ends::parse), array_ends::least),
    row("$minute", Parsed(dates::parse_part), dates::minute),
    row("$mod", Exactly(2), arithmetic::modulo),
    row("$month", Parsed(dates::parse_part), dates::month),
    row("$multiply", Any, arithmetic::multiply),
    row("$ne", Exactly(2), comparison::ne),
    row("$not", Exactly(1), conditional::not),
    row("$objectToArray", Exactly(1), objects::object_to_array),
    row("$or", Any, conditional::or),
    row("$percentile", Parsed(quantiles::parse), quantiles::evaluate),
    row("$pow", Exactly(2), arithmetic::pow),
    row(
        "$radiansToDegrees",
        Exactly(1),
        trigonometry::radians_to_degrees,
    ),
    Operator {
        varies: true,
        ..row("$rand", Parsed(random::parse), random::rand)
    },
    row("$range", Between(2, 3), arrays::range),
    row(
        "$reduce",
        Parsed(iteration::parse_reduce),
        iteration::reduce,
    ),
    row("$regexFind", Parsed(regexes::parse), regexes::find),
    row("$regexFindAll", Parsed(regexes::parse), regexes::find_all),
    row("$regexMatch", Parsed(regexes::parse), regexes::is_match),
    row("$replaceAll", Parsed(replacing::parse), replacing::all),
    row("$replaceOne", Parsed(replacing::parse), replacing::one),
    row("$reverseArray", Exactly(1), arrays::reverse),
    row("$round", Between(1, 2), rounding::round),
    row("$rtrim", Parsed(trimming::parse), trimming::right),
    row("$second", Parsed(dates::parse_part), dates::second),
    row("$setDifference", Exactly(2), sets::difference),
    row("$setEquals", Any, sets::equals),
    row("$setField", Parsed(fields::parse_set), fields::set),
    row("$setIntersection", Any, sets::intersection),
    row("$setIsSubset", Exactly(2), sets::is_subset),
    row("$setUnion", Any, sets::union),
    row("$sin", Exactly(1), trigonometry::sin),
    row("$sinh", Exactly(1), trigonometry::sinh),
    row("$size", Exactly(1), arrays::size),
    row("$slice", Between(2, 3), arrays::slice),
    row("$sortArray", Parsed(sort_array::parse), sort_array::sort),
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
    row("$tan", Exactly(1), trigonometry::tan),
    row("$tanh", Exactly(1), trigonometry::tanh),
    row("$toBool", Exactly(1), conversion::to_bool),
    row("$toDate", Exactly(1), conversion::to_date),
    row("$toDecimal", Exactly(1), conversion::to_decimal),
    row("$toDouble", Exactly(1), conversion::to_double),
    row(
        "$toHashedIndexKey",
        Exactly(1),
        hashing::to_hashed_index_key,
    ),
    row("$toInt", Exactly(1), conversion::to_int),
    row("$toLong", Exactly(1), conversion::to_long),
    row("$toLower", Exactly(1), strings::to_lower),
    row("$toObjectId", Exactly(1), conversion::to_object_id),
    row("$toString", Exactly(1), conversion::to_string),
    row("$toUUID", Exactly(1), conversion::to_uuid),
    row("$toUpper", Exactly(1), strings::to_upper),
    row("$trim", Parsed(trimming::parse), trimming::both),
    row("$trunc", Between(1, 2), rounding::trunc),
    row("$tsIncrement", Exactly(1), dates::timestamp_increment),
    row("$tsSecond", Exactly(1), dates::timestamp_second),
    row("$type", Exactly(1), objects::type_of),
    row("$unsetField", Parsed(fields::parse_set), fields::set),
    row("$week", Parsed(dates::parse_part), dates::week),
    row("$year", Parsed(dates::parse_part), dates::year),
    row("$zip", Parsed(zip::parse), zip::zip),
];

/// Whether MongoDB has an operator of that name that is not served, with the reason why.
pub(super) fn refusal(name: &str) -> Option<String> {
    let is_refused = matches!(name, "$function" | "$accumulator");
    is_refused
        .then(|| format!("{name} is not supported: this server runs no JavaScript, by choice"))
}

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
            assert_eq!(refusal(operator.name), None, "it is there");
        }
    }
}
