//! Comma-separated values: a line per case, and a column for every figure that any of them has.

use super::worded;
use serde_json::Value;

pub(super) fn of(results: &[Value]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for name in results.iter().filter_map(Value::as_object).flat_map(|case| case.keys()) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let mut text = line(columns.iter().map(|name| (*name).to_owned()));
    for case in results {
        text += &line(columns.iter().map(|name| case.get(name).map_or_else(String::new, cell)));
    }
    text
}

fn cell(value: &Value) -> String {
    if value.is_null() { String::new() } else { worded(value) }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| {
        let plain = !cell.contains([',', '"', '\n']);
        if plain { cell } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
