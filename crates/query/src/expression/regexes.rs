//! `$regexMatch $regexFind $regexFindAll`: regular expressions over texts, and where they are found.

use quarry_bson::{ArrayBuilder, DocumentBuilder, RawValue};

use super::parameters::{call_of, need, parameters};
use super::tree::Operator;
use super::{Call, Context, Evaluated, Expression, Variables, type_name};
use crate::error::{Error, Result};
use crate::interrupts;
use crate::matcher::{Places, RegexPredicate};
use crate::memory::Counted;

/// The code of a pattern that cannot be compiled, as filters tell it, and as expressions do.
const INVALID_IN_FILTER: i32 = 51091;
const INVALID: i32 = 51111;

pub(super) fn parse(
    operator: &'static Operator,
    operand: RawValue<'_>,
    variables: &mut Variables<'_>,
) -> Result<Expression> {
    let name = operator.name;
    let [input, regex, options] = parameters(
        operand,
        ["input", "regex", "options"],
        |found| {
            let kind = type_name(found);
            let text = format!("{name} expects an object of named arguments but found: {kind}");
            Error::location(51103, text)
        },
        |found| {
            let text = format!("{name} found an unknown argument: {found}");
            Error::location(31024, text)
        },
    )?;
    let input = need(input, 31022, &format!("{name} requires 'input' parameter"))?;
    let regex = need(regex, 31023, &format!("{name} requires 'regex' parameter"))?;
    call_of(operator, [Some(input), Some(regex), options], variables)
}

/// The text and the pattern of a call, as they were evaluated.
struct Search<'a> {
    input: Evaluated<'a>,
    regex: Evaluated<'a>,
    options: Evaluated<'a>,
}

impl<'a> Search<'a> {
    fn of(call: &'a Call, context: &mut Context<'a>) -> Result<Search<'a>> {
        Ok(Search {
            input: call.argument(0, context)?,
            regex: call.argument(1, context)?,
            options: call.argument(2, context)?,
        })
    }

    /// Hands the text and the compiled pattern to `search`; None where one of both is nullish.
    fn run<T>(
        &self,
        call: &'a Call,
        search: impl FnOnce(&str, &RegexPredicate) -> Result<T>,
    ) -> Result<Option<T>> {
        let name = call.name();
        // A pattern that no document changes is compiled once.
        let is_constant = call.arguments[1..]
            .iter()
            .all(|argument| matches!(argument, Expression::Literal(_) | Expression::Absent));
        let made;
        let compiled = match call.compiled.get().filter(|_| is_constant) {
            Some(compiled) => Some(&**compiled),
            None => match self.compile(name)? {
                None => None,
                Some(regex) if is_constant => {
                    Some(&**call.compiled.get_or_init(|| Box::new(regex)))
                }
                Some(regex) => {
                    made = regex;
                    Some(&made)
                }
            },
        };
        let Some(input) = self.input.as_raw().filter(|input| !input.is_nullish()) else {
            return Ok(None);
        };
        let text = input.as_str().ok_or_else(|| {
            let text = format!(
                "{name} needs 'input' to be of type string, found {}",
                type_name(input)
            );
            Error::location(51104, text)
        })?;
        compiled.map(|compiled| search(text, compiled)).transpose()
    }

    /// None for a nullish pattern.
    fn compile(&self, name: &str) -> Result<Option<RegexPredicate>> {
        let options = match self
            .options
            .as_raw()
            .filter(|options| !options.is_nullish())
        {
            None => None,
            Some(options) => Some(options.as_str().ok_or_else(|| {
                let text = format!("{name} needs 'options' to be of type string");
                Error::location(51106, text)
            })?),
        };
        let (pattern, own_options) = match self.regex.as_raw() {
            Some(RawValue::Regex(regex)) => (regex.pattern.as_str()?, regex.options.as_str()?),
            Some(RawValue::String(pattern)) => (pattern.as_str()?, ""),
            None => return Ok(None),
            Some(nullish) if nullish.is_nullish() => return Ok(None),
            Some(_) => {
                let text = format!("{name} needs 'regex' to be of type string or regex");
                return Err(Error::location(51105, text));
            }
        };
        if !own_options.is_empty() && options.is_some() {
            let text = format!(
                "{name}: found regex option(s) specified in both 'regex' and 'option' fields"
            );
            return Err(Error::location(51107, text));
        }
        let options = options.unwrap_or(own_options);
        if pattern.contains('\0') {
            let text = format!("{name}: regular expression cannot contain an embedded null byte");
            return Err(Error::location(51109, text));
        }
        if options.contains('\0') {
            let text =
                format!("{name}: regular expression options cannot contain an embedded null byte");
            return Err(Error::location(51110, text));
        }
        RegexPredicate::new(pattern, options)
            .map(Some)
            .map_err(|error| match error.code() {
                INVALID_IN_FILTER => Error::location(
                    INVALID,
                    format!("Invalid Regex in {name}: {}", error.message),
                ),
                _ => error,
            })
    }
}

pub(super) fn is_match<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let search = Search::of(call, context)?;
    let found = search.run(call, |text, regex| regex.is_match(text.as_bytes()))?;
    Ok(found.unwrap_or(false).into())
}

pub(super) fn find<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let search = Search::of(call, context)?;
    let found = search.run(call, |text, regex| {
        let Some(places) = regex.find(text.as_bytes(), 0)? else {
            return Ok(None);
        };
        let mut built = Counted::default();
        built.charge.cover(bytes_of(&places))?;
        let mut progress = Progress::default();
        let document = DocumentBuilder::new(&mut built.bytes);
        write(text, &places, &mut progress, document)?;
        Ok(Some(Evaluated::document(built)))
    })?;
    Ok(found.flatten().unwrap_or(Evaluated::NULL))
}

pub(super) fn find_all<'a>(call: &'a Call, context: &mut Context<'a>) -> Result<Evaluated<'a>> {
    let search = Search::of(call, context)?;
    let mut built = Counted::default();
    let mut all = ArrayBuilder::new(&mut built.bytes);
    let charge = &mut built.charge;
    search.run(call, |text, regex| {
        let (mut from, mut progress) = (0, Progress::default());
        while let Some(places) = regex.find(text.as_bytes(), from)? {
            let Some(found) = places.first().cloned().flatten() else {
                break;
            };
            charge.cover(all.len_bytes() + bytes_of(&places))?;
            write(text, &places, &mut progress, all.document())?;
            // A match of nothing is found again where it is: the next one begins behind the next letter.
            from = match found.is_empty() {
                false => found.end,
                true => match text[found.end..].chars().next() {
                    Some(letter) => found.end + letter.len_utf8(),
                    None => break,
                },
            };
            // At the end of a text nothing is looked for, unless that is its beginning.
            if from >= text.len() {
                break;
            }
        }
        Ok(())
    })?;
    all.finish();
    Ok(Evaluated::array(built))
}

/// The bytes of a match in its document, about.
fn bytes_of(places: &Places) -> usize {
    const BYTES_OF_A_PLACE: usize = 16;
    let texts = places.iter().flatten().map(ExactSizeIterator::len);
    texts.sum::<usize>() + (places.len() + 3) * BYTES_OF_A_PLACE
}

/// How many letters stand before a place; it is counted on from match to match.
#[derive(Default)]
struct Progress {
    bytes: usize,
    letters: usize,
}

impl Progress {
    fn letters_before(&mut self, text: &str, place: usize) -> Result<usize> {
        interrupts::work_on_bytes(place.saturating_sub(self.bytes))?;
        // A match may begin before the last one did where the pattern moves its beginning (`\K`).
        if place < self.bytes {
            *self = Progress::default();
        }
        self.letters += text[self.bytes..place].chars().count();
        self.bytes = place;
        Ok(self.letters)
    }
}

/// `{match: .., idx: .., captures: [..]}`; a group that took no part is null.
fn write(
    text: &str,
    places: &Places,
    progress: &mut Progress,
    mut out: DocumentBuilder<'_>,
) -> Result<()> {
    let mut places = places.iter();
    let found = places.next().cloned().flatten().unwrap_or(0..0);
    out.append("match", &text[found.clone()]);
    let index = progress.letters_before(text, found.start)?;
    out.append("idx", i32::try_from(index).unwrap_or(i32::MAX));
    let mut captures = out.array("captures");
    for place in places {
        interrupts::work(1)?;
        match place {
            Some(place) => captures.push(&text[place.clone()]),
            None => captures.push(RawValue::Null),
        };
    }
    captures.finish();
    out.finish();
    Ok(())
}
