//! Dates: their parts in a time zone, text, arithmetic by the calendar.
//!
//! Keeps true: a date is milliseconds since 1970 in UTC, and a time zone only says how far the clocks there stand from that.
//! The rules of time zones are part of the program (`jiff`'s copy of the IANA database), so that a result does not depend
//! on the machine. Years before 1 and after 9999 are reckoned by the same calendar, where MongoDB has a result for them.

mod arguments;
mod arithmetic;
mod calendar;
mod fields;
mod from_parts;
mod from_string;
mod notations;
mod parts;
mod text;
mod truncate;
mod unit;
mod without_format;
mod zone;

pub(super) use arguments::milliseconds;
pub use arithmetic::{add, difference, parse_add, parse_difference, subtract};
pub use from_parts::{from_parts, parse_from_parts};
pub use from_string::{from_string, of_text, parse_from_string};
pub use parts::{
    day_of_month, day_of_week, day_of_year, hour, iso_day_of_week, iso_week, iso_week_year,
    millisecond, minute, month, parse_part, parse_to_parts, second, timestamp_increment,
    timestamp_second, to_parts, week, year,
};
pub use text::{parse_to_string, to_string};
pub use truncate::{parse_truncate, truncate};
pub use unit::Unit;
