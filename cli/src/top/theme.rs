//! Colours and characters. Meaning never hangs on a colour alone: what is late also says so, and in `ascii` needs no colour at all.

use crate::timeline::Doing;
use ratatui::style::{Color, Modifier, Style};

/// How the screen looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Theme {
    /// For dark terminals
    Dark,
    /// For light terminals
    Light,
    /// Blue, orange and magenta instead of green, yellow and red
    ColourBlind,
    /// Plain characters, no colours
    Ascii,
}

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// What is there.
    Text,
    /// What matters less.
    Quiet,
    /// A heading.
    Heading,
    /// In time, with time to spare.
    Good,
    /// In time, with little left.
    Thin,
    /// A deadline that was missed.
    Missed,
    /// Work on the GPU.
    Runs,
    /// Held, frozen.
    Held,
}

impl Theme {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Dark => Self::Light,
            Self::Light => Self::ColourBlind,
            Self::ColourBlind => Self::Ascii,
            Self::Ascii => Self::Dark,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::ColourBlind => "colour-blind",
            Self::Ascii => "ascii",
        }
    }

    /// How something is drawn. The 256 colours that nearly every terminal has.
    pub(super) fn style(self, meaning: Meaning) -> Style {
        use Meaning::{Good, Heading, Held, Missed, Quiet, Runs, Text, Thin};
        let coloured = |dark: u8, light: u8, blind: u8| match self {
            Self::Dark => Style::new().fg(Color::Indexed(dark)),
            Self::Light => Style::new().fg(Color::Indexed(light)),
            Self::ColourBlind => Style::new().fg(Color::Indexed(blind)),
            Self::Ascii => Style::new(),
        };
        match meaning {
            Text => Style::new(),
            Quiet => coloured(244, 244, 244),
            Heading => coloured(110, 24, 110).add_modifier(Modifier::BOLD),
            Good => coloured(71, 28, 75),
            Thin => coloured(179, 130, 214),
            Missed => coloured(203, 160, 170).add_modifier(Modifier::BOLD),
            Runs => coloured(67, 25, 67),
            Held => coloured(137, 137, 180),
        }
    }

    /// What a task does, as a colour.
    pub(super) fn doing(self, doing: Doing) -> Style {
        self.style(match doing {
            Doing::Runs => Meaning::Runs,
            Doing::Held => Meaning::Held,
            Doing::Late | Doing::HeldLate => Meaning::Missed,
        })
    }

    /// A column that is full to so many eighths.
    pub(super) fn column(self, doing: Doing, eighths: usize) -> char {
        let plain = self == Self::Ascii;
        match (doing, plain) {
            (Doing::Held | Doing::HeldLate, false) => '░',
            (Doing::Held, true) => '.',
            (Doing::HeldLate, true) => ',',
            (Doing::Runs, true) => '=',
            (Doing::Late, true) => '!',
            (Doing::Runs | Doing::Late, false) => {
                ['▁', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths.min(8)]
            }
        }
    }

    /// Where a deadline is.
    pub(super) fn due(self, missed: bool) -> char {
        match (self, missed) {
            (Self::Ascii, false) => '|',
            (Self::Ascii, true) => 'X',
            (_, false) => '│',
            (_, true) => '╳',
        }
    }

    /// A bar of so many cells, of which a share is full.
    pub(super) fn bar(self, share: f64, cells: usize) -> (String, String) {
        let eighths = (share.clamp(0.0, 1.0) * (cells * 8) as f64).round() as usize;
        let (full, rest) = (eighths / 8, eighths % 8);
        if self == Self::Ascii {
            return ("#".repeat(full), "-".repeat(cells - full));
        }
        let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][rest];
        let left = cells - full - usize::from(rest > 0);
        (format!("{}{part}", "█".repeat(full)), "·".repeat(left))
    }
}
