//! Docker's `--format` templates, as far as lists of containers need them.
//!
//! Text with `{{.Field}}`, `{{.Label "name"}}`, and `{{json .Field}}`, `{{json .}}`, `{{upper .Field}}`,
//! `{{lower .Field}}`. A template that begins with `table ` gets a heading and aligned columns. Anything else is
//! refused with what is known, rather than printed wrong.

use super::fields::{Field, Row};
use crate::failure::Failure;
use std::fmt::Write;

/// Docker's least width of a column, and the space between two.
const COLUMN_WIDTH_MIN: usize = 10;
const COLUMN_SPACE: usize = 3;

/// A template, checked.
#[derive(Debug)]
pub(super) struct Template {
    parts: Vec<Part>,
    table: bool,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Value(Shape, Field),
    /// Every field, as one JSON object.
    Everything,
}

/// How a value is written.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Plain,
    Json,
    Upper,
    Lower,
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let (table, text) = text.strip_prefix("table ").map_or((false, text), |rest| (true, rest.trim()));
        let text = text.replace("\\t", "\t").replace("\\n", "\n");
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            parts.push(Part::Text(before.to_owned()));
            let Some((inside, after)) = after.split_once("}}") else {
                return Err(refused(text.as_str(), "a {{ has no }}"));
            };
            parts.push(part(inside.trim()).map_err(|wrong| refused(&text, &wrong))?);
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts, table })
    }

    /// One line a container, and a heading if it is a table.
    pub(super) fn render(&self, rows: &[Row<'_>]) -> String {
        let lines = rows.iter().map(|row| self.line(|shape, field| shape.apply(&field.value(row)), row));
        if !self.table {
            return lines.fold(String::new(), |text, line| text + &line + "\n");
        }
        let heading = self.parts.iter().fold(String::new(), |heading, part| match part {
            Part::Text(text) => heading + text,
            Part::Value(_, field) => heading + &field.heading(),
            Part::Everything => heading,
        });
        aligned(&std::iter::once(heading).chain(lines).collect::<Vec<_>>())
    }

    fn line(&self, value: impl Fn(Shape, &Field) -> String, row: &Row<'_>) -> String {
        self.parts.iter().fold(String::new(), |line, part| match part {
            Part::Text(text) => line + text,
            Part::Value(shape, field) => line + &value(*shape, field),
            Part::Everything => line + &row.json(),
        })
    }
}

impl Shape {
    fn apply(self, value: &str) -> String {
        match self {
            Shape::Plain => value.to_owned(),
            Shape::Json => serde_json::Value::from(value).to_string(),
            Shape::Upper => value.to_uppercase(),
            Shape::Lower => value.to_lowercase(),
        }
    }
}

/// Reads what stands between the braces.
fn part(inside: &str) -> Result<Part, String> {
    let (shape, operand) = match inside.split_once(char::is_whitespace) {
        Some(("json", ".")) => return Ok(Part::Everything),
        Some(("json", operand)) => (Shape::Json, operand),
        Some(("upper", operand)) => (Shape::Upper, operand),
        Some(("lower", operand)) => (Shape::Lower, operand),
        _ => (Shape::Plain, inside),
    };
    let name = operand.trim().strip_prefix('.').ok_or_else(|| format!("'{inside}' is not understood"))?;
    let field = Field::named(name).ok_or_else(|| format!("there is no field '.{name}'"))?;
    Ok(Part::Value(shape, field))
}

fn refused(template: &str, wrong: &str) -> Failure {
    Failure::input(format!("--format '{}': {wrong}", template.escape_debug()))
        .help(format!("fields are {}, .Label \"NAME\"; functions are json, upper, lower", Field::names()))
}

/// Pads every column, told apart by tabs, to its widest value. The last is left as it is.
fn aligned(lines: &[String]) -> String {
    let cells: Vec<Vec<&str>> = lines.iter().map(|line| line.split('\t').collect()).collect();
    let columns = cells.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let widest = cells.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
        (widest.unwrap_or_default() + COLUMN_SPACE).max(COLUMN_WIDTH_MIN)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &cells {
        let (last, padded) = line.split_last().unwrap_or((&"", &[]));
        for (cell, width) in padded.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{cell:width$}");
        }
        text += last;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_value() {
        let lines = ["ID\tIMAGE\tNAMES".to_owned(), "4f\ta-rather-long-image\tweb".to_owned()];
        let expected = "ID        IMAGE                 NAMES\n4f        a-rather-long-image   web\n";
        assert_eq!(aligned(&lines), expected);
    }

    #[test]
    fn a_template_that_is_not_understood_is_refused() {
        for (template, reason) in [
            ("{{.Nonsense}}", "'.Nonsense'"),
            ("{{.ID", "no }}"),
            ("{{if .ID}}", "'if .ID'"),
            ("{{.Label}}", "'.Label'"),
        ] {
            let refused = Template::parse(template).unwrap_err().to_string();
            assert!(refused.contains(reason), "{template}: {refused}");
        }
    }
}
