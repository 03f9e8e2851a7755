//! A frame as a picture: what the terminal would show, in its colours.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use svg::Document;
use svg::node::element::{Rectangle, Text};

/// The size of a character, in a picture's units.
const WIDE: f64 = 8.4;
const HIGH: f64 = 18.0;
const MARGIN: f64 = 14.0;
/// Of a dark terminal.
const GROUND: &str = "#0f1318";
const INK: &str = "#d5dae0";
const FONT: &str = "14px ui-monospace, 'DejaVu Sans Mono', 'Menlo', monospace";

pub(super) fn draw(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (f64::from(area.width) * WIDE, f64::from(area.height) * HIGH);
    let ground = Rectangle::new().set("width", "100%").set("height", "100%").set("rx", 8).set("fill", GROUND);
    let mut document = Document::new()
        .set("viewBox", (0, 0, width + 2.0 * MARGIN, height + 2.0 * MARGIN))
        .set("role", "img")
        .add(ground);
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let first = &buffer[(x, y)];
            let same =
                (x..area.width).take_while(|at| looks(&buffer[(*at, y)]) == looks(first)).count() as u16;
            let words: String = (x..x + same).map(|at| buffer[(at, y)].symbol()).collect();
            if !words.trim().is_empty() {
                document = document.add(run(&words, x, y, first));
            }
            x += same;
        }
    }
    document.to_string()
}

fn looks(cell: &Cell) -> (Color, bool) {
    (cell.fg, cell.modifier.contains(Modifier::BOLD))
}

/// Letters that look alike. Their length is said, or fonts of another width would move what follows.
fn run(words: &str, x: u16, y: u16, cell: &Cell) -> Text {
    let (colour, bold) = looks(cell);
    let text = Text::new(words.replace(' ', "\u{a0}"))
        .set("x", MARGIN + f64::from(x) * WIDE)
        .set("y", MARGIN + f64::from(y) * HIGH + 14.0)
        .set("textLength", words.chars().count() as f64 * WIDE)
        .set("lengthAdjust", "spacingAndGlyphs")
        .set("style", format!("font: {FONT}"))
        .set("fill", rgb(colour));
    if bold { text.set("font-weight", "bold") } else { text }
}

/// The colours that themes use are those of the cube, and greys.
fn rgb(colour: Color) -> String {
    let Color::Indexed(index) = colour else { return INK.to_owned() };
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match index {
        232.. => {
            let grey = 8 + 10 * (index - 232);
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
        16.. => {
            let cube = index - 16;
            format!("#{:02x}{:02x}{:02x}", level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        _ => INK.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_terminals() {
        for (index, expected) in
            [(16, "#000000"), (231, "#ffffff"), (67, "#5f87af"), (203, "#ff5f5f"), (244, "#808080")]
        {
            assert_eq!(rgb(Color::Indexed(index)), expected, "{index}");
        }
    }

    #[test]
    fn what_looks_alike_is_drawn_together() {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "ab cd", ratatui::style::Style::new());
        buffer.set_string(6, 0, "<x>", ratatui::style::Style::new().fg(Color::Indexed(203)));
        let text = draw(&buffer);
        assert_eq!(text.matches("<text").count(), 2, "{text}");
        assert!(
            text.contains("ab\u{a0}cd") && text.contains("&lt;x&gt;") && text.contains("#ff5f5f"),
            "{text}"
        );
    }
}
