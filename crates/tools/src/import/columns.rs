//! Columns as fields: a dotted name is a field of a nested document.

use quarry_bson::DocumentBuilder;

use super::column_type::{ColumnType, Grace};
use crate::error::{Error, Result};

/// Documents within documents, as servers store them.
const DEPTH_MAX: usize = 100;

/// The fields of each document.
#[derive(Debug)]
pub struct Columns {
    fields: Vec<Field>,
    count: usize,
    grace: Grace,
    ignores_blanks: bool,
}

#[derive(Debug)]
struct Field {
    name: String,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// The value of the column.
    Column(usize, ColumnType),
    Fields(Vec<Field>),
}

/// Why a row is no document.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// The import ends.
    Stop(String),
    /// The row is left out, as it was asked for.
    Skip(String),
}

impl Columns {
    /// The fields of the names. With `has_types` each has its type behind it.
    pub fn new(
        names: &[String],
        has_types: bool,
        grace: Grace,
        ignores_blanks: bool,
    ) -> Result<Columns> {
        let mut fields = Vec::new();
        for (column, name) in names.iter().enumerate() {
            let (name, column_type) = match has_types {
                true => ColumnType::parse(name)?,
                false => (name.clone(), ColumnType::Auto),
            };
            let path: Vec<&str> = name.split('.').collect();
            if path.len() > DEPTH_MAX
                || path
                    .iter()
                    .any(|part| part.is_empty() || part.contains('\0'))
            {
                return Err(Error::usage(format!("`{name}` is no name of a field")));
            }
            let content = Content::Column(column, column_type);
            if !add(&mut fields, &path, content) {
                let what =
                    format!("the field `{name}` stands twice, or within another one's value");
                return Err(Error::usage(what));
            }
        }
        Ok(Columns {
            fields,
            count: names.len(),
            grace,
            ignores_blanks,
        })
    }

    /// Appends the document of a row to `out`; values without a column are named by their number. Which column an
    /// error is about stands in it. After a refusal `out` has to be cut back.
    pub fn append<'r>(
        &self,
        value: impl Fn(usize) -> Option<&'r str>,
        values: usize,
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> std::result::Result<(), Refusal> {
        let mut builder = DocumentBuilder::new(out);
        self.append_fields(&self.fields, &value, &mut builder, scratch)?;
        for extra in self.count..values {
            let name = format!("field{extra}");
            let text = value(extra).unwrap_or_default();
            self.append_value(&name, text, &ColumnType::Auto, &mut builder, scratch)?;
        }
        builder.finish();
        Ok(())
    }

    fn append_fields<'r>(
        &self,
        fields: &[Field],
        value: &impl Fn(usize) -> Option<&'r str>,
        builder: &mut DocumentBuilder<'_>,
        scratch: &mut Vec<u8>,
    ) -> std::result::Result<(), Refusal> {
        for field in fields {
            match &field.content {
                Content::Column(column, column_type) => {
                    // A short row has no text for its last columns, and leaves them out.
                    if let Some(text) = value(*column) {
                        self.append_value(&field.name, text, column_type, builder, scratch)?;
                    }
                }
                Content::Fields(fields) => {
                    if self.has_any(fields, value) {
                        let mut inner = builder.document(&field.name);
                        self.append_fields(fields, value, &mut inner, scratch)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a nested document has a field.
    fn has_any<'r>(&self, fields: &[Field], value: &impl Fn(usize) -> Option<&'r str>) -> bool {
        fields.iter().any(|field| match &field.content {
            Content::Column(column, _) => {
                value(*column).is_some_and(|text| !(self.ignores_blanks && text.is_empty()))
            }
            Content::Fields(fields) => self.has_any(fields, value),
        })
    }

    fn append_value(
        &self,
        name: &str,
        text: &str,
        column_type: &ColumnType,
        builder: &mut DocumentBuilder<'_>,
        scratch: &mut Vec<u8>,
    ) -> std::result::Result<(), Refusal> {
        if self.ignores_blanks && text.is_empty() {
            return Ok(());
        }
        let read = column_type.read(text, scratch, |value| {
            builder.append(name, value);
        });
        let Err(what) = read else {
            return Ok(());
        };
        let of_field = || format!("field `{name}`: {what}");
        match self.grace {
            Grace::Stop => Err(Refusal::Stop(of_field())),
            Grace::SkipRow => Err(Refusal::Skip(of_field())),
            Grace::SkipField => Ok(()),
            Grace::AutoCast => ColumnType::Auto
                .read(text, scratch, |value| {
                    builder.append(name, value);
                })
                .map_err(Refusal::Stop),
        }
    }
}

/// Adds a field; false where the path is taken.
fn add(fields: &mut Vec<Field>, path: &[&str], content: Content) -> bool {
    let [name, rest @ ..] = path else {
        return false;
    };
    let there = fields.iter_mut().find(|field| field.name == *name);
    match (there, rest) {
        (Some(field), [_, ..]) => match &mut field.content {
            Content::Fields(fields) => add(fields, rest, content),
            Content::Column(..) => false,
        },
        (Some(_), []) => false,
        (None, []) => {
            fields.push(Field {
                name: (*name).to_owned(),
                content,
            });
            true
        }
        (None, [_, ..]) => {
            let mut inner = Vec::new();
            let is_added = add(&mut inner, rest, content);
            fields.push(Field {
                name: (*name).to_owned(),
                content: Content::Fields(inner),
            });
            is_added
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quarry_bson::RawDocument;

    fn columns(names: &str, grace: Grace, ignores_blanks: bool) -> Result<Columns> {
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        Columns::new(&names, names[0].ends_with(')'), grace, ignores_blanks)
    }

    fn row(columns: &Columns, row: &[&str]) -> String {
        let mut out = Vec::new();
        let value = |column: usize| row.get(column).copied();
        match columns.append(value, row.len(), &mut out, &mut Vec::new()) {
            Ok(()) => RawDocument::validated(&out).unwrap().to_string(),
            Err(refusal) => format!("{refusal:?}"),
        }
    }

    #[test]
    fn dotted_names_nest() {
        let dotted = columns("a.b,c,a.d.e", Grace::Stop, false).unwrap();
        assert_eq!(
            row(&dotted, &["1", "x", ""]),
            "{ a: { b: 1, d: { e: '' } }, c: 'x' }"
        );
        assert_eq!(row(&dotted, &["1"]), "{ a: { b: 1 } }");
        assert_eq!(
            row(&dotted, &["1", "2", "3", "4"]),
            "{ a: { b: 1, d: { e: 3 } }, c: 2, field3: 4 }"
        );
        let blank = columns("a.b,c,a.d.e", Grace::Stop, true).unwrap();
        assert_eq!(row(&blank, &["", "2", ""]), "{ c: 2 }");
        for bad in ["a,a", "a,a.b", "a.b,a", "a..b", "", "a.b,a.b"] {
            assert!(columns(bad, Grace::Stop, false).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_treated_with_the_grace_that_was_asked_for() {
        for (grace, said) in [
            (Grace::Stop, "Stop(\"field `n`: `x` is no Int32\")"),
            (Grace::AutoCast, "{ s: '1', n: 'x' }"),
            (Grace::SkipField, "{ s: '1' }"),
            (Grace::SkipRow, "Skip(\"field `n`: `x` is no Int32\")"),
        ] {
            let columns = columns("s.string(),n.int32()", grace, false).unwrap();
            assert_eq!(row(&columns, &["1", "x"]), said);
        }
    }
}
