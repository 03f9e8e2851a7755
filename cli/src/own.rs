//! Leeway's own options of `run` and `create`: each stands for one label.
//!
//! One table says everything about them: how they are read, what the label is, and what the help says.

use crate::failure::Failure;
use std::ffi::{OsStr, OsString};
use wire::labels::{self, Mode};
use wire::{bytes, duration};

/// One of our options.
struct Own {
    /// Its name, without the dashes.
    name: &'static str,
    /// The label it stands for.
    label: &'static str,
    value: Value,
    help: &'static str,
}

/// What an option takes.
enum Value {
    Duration,
    Bytes,
    Mode,
    /// Nothing, or `=true` or `=false`.
    Switch,
    /// The name of a node. No label: it says where the container goes, not what it is.
    Node,
}

const OPTIONS: [Own; 8] = [
    Own {
        name: "deadline",
        label: labels::DEADLINE,
        value: Value::Duration,
        help: "How long a GPU task of the container may take: 2 or 2s, 250ms, 1m30s; at most 24h. Also: -dl D",
    },
    Own {
        name: "task",
        label: labels::TASK,
        value: Value::Mode,
        help: "What delimits a task: process (the default), memory or burst",
    },
    Own {
        name: "expect",
        label: labels::EXPECT,
        value: Value::Duration,
        help: "How long a task takes when it has the GPU to itself; believed only until measured",
    },
    Own {
        name: "gpu-memory",
        label: labels::GPU_MEMORY,
        value: Value::Bytes,
        help: "How much GPU memory a task takes: 24GiB or 24g, 512MiB, bytes; believed only until measured",
    },
    Own {
        name: "hold-max",
        label: labels::HOLD_MAX,
        value: Value::Duration,
        help: "The longest a task may be held at a time",
    },
    Own {
        name: "swap",
        label: labels::SWAP,
        value: Value::Switch,
        help: "Allow the container's GPU memory to be moved to host memory while others use the GPU",
    },
    Own {
        name: "migrate",
        label: labels::MIGRATE,
        value: Value::Switch,
        help: "Allow the container to be moved to another node",
    },
    Own {
        name: "node",
        label: "",
        value: Value::Node,
        help: "Where to run it: auto or the name of a node. It needs a cluster's master",
    },
];

/// What an option of ours means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meant {
    /// A label, `key=value`.
    Label(String),
    /// Where the container goes: `auto` or the name of a node.
    Node(String),
}

/// Reads an option of ours from the start of `words`: what it means, and how many words it took. Nothing if the first
/// word is not ours.
pub fn read(words: &[OsString]) -> Result<Option<(Meant, usize)>, Failure> {
    let Some((own, spelled, attached)) = words.first().and_then(|word| recognise(word)) else {
        return Ok(None);
    };
    let next = words.get(1).map(|word| word.to_string_lossy());
    let (value, taken) = match (attached, &own.value) {
        (Some(value), _) => (value, 1),
        (None, Value::Switch) => ("true".to_owned(), 1),
        (None, _) => match next {
            // The value has an `=`: these are Docker's own `-d` and `-l`.
            Some(next) if spelled == "-dl" && next.contains('=') => return Ok(None),
            Some(next) => (next.into_owned(), 2),
            None => return Err(Failure::input(format!("{spelled} needs a value: {}", own.accepted()))),
        },
    };
    if spelled == "-dl" && value.contains('=') {
        return Ok(None);
    }
    let value = own.normalised(&value).map_err(|wrong| Failure::input(format!("{spelled}: {wrong}")))?;
    let meant = match own.value {
        Value::Node => Meant::Node(value),
        _ => Meant::Label(format!("{}={value}", own.label)),
    };
    Ok(Some((meant, taken)))
}

/// The same options as clap's definitions, for the help, the completions and the manual pages.
pub fn arguments() -> Vec<clap::Arg> {
    OPTIONS.iter().map(Own::argument).collect()
}

/// Which option a word is, how it was spelled, and the value after its `=`.
fn recognise(word: &OsStr) -> Option<(&'static Own, String, Option<String>)> {
    let word = word.to_string_lossy();
    let (spelled, attached) = match word.split_once('=') {
        Some((spelled, value)) => (spelled, Some(value.to_owned())),
        None => (&*word, None),
    };
    let own = if spelled == "-dl" {
        &OPTIONS[0]
    } else {
        let name = spelled.strip_prefix("--")?;
        OPTIONS.iter().find(|own| own.name == name)?
    };
    Some((own, spelled.to_owned(), attached))
}

impl Own {
    /// The value as the label stores it, or why it is none.
    fn normalised(&self, value: &str) -> Result<String, String> {
        match self.value {
            Value::Duration => duration::normalised(value).map_err(|wrong| wrong.to_string()),
            Value::Bytes => bytes::normalised(value).map_err(|wrong| wrong.to_string()),
            Value::Mode => {
                value.parse::<Mode>().map(|mode| mode.name().to_owned()).map_err(|wrong| wrong.to_string())
            }
            Value::Switch if matches!(value, "true" | "false") => Ok(value.to_owned()),
            Value::Switch => Err(format!("'{value}' is neither true nor false")),
            Value::Node if value.is_empty() => Err("accepted are auto and the name of a node".to_owned()),
            Value::Node => Ok(value.to_owned()),
        }
    }

    fn accepted(&self) -> &'static str {
        match self.value {
            Value::Duration => duration::ACCEPTED,
            Value::Bytes => bytes::ACCEPTED,
            Value::Mode => "process, memory or burst",
            Value::Switch => "true or false",
            Value::Node => "auto or the name of a node",
        }
    }

    fn argument(&self) -> clap::Arg {
        let argument = clap::Arg::new(self.name).long(self.name).help(self.help);
        match self.value {
            Value::Duration => argument.value_name("D"),
            Value::Bytes => argument.value_name("M"),
            Value::Mode => {
                argument.value_name("T").value_parser(Mode::ALL.map(Mode::name)).hide_possible_values(true)
            }
            Value::Switch => argument.action(clap::ArgAction::SetTrue),
            Value::Node => argument.value_name("NODE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> Option<(Meant, usize)> {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    fn refusal(line: &str) -> String {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).unwrap_err().to_string()
    }

    #[test]
    fn an_option_becomes_its_label() {
        for (line, expected, taken) in [
            ("-dl 2 IMAGE", "leeway.deadline=2s", 2),
            ("-dl=2 IMAGE", "leeway.deadline=2s", 1),
            ("--deadline 1m30s IMAGE", "leeway.deadline=1m30s", 2),
            ("--deadline=250ms IMAGE", "leeway.deadline=250ms", 1),
            ("--task burst IMAGE", "leeway.task=burst", 2),
            ("--expect=3 IMAGE", "leeway.expect=3s", 1),
            ("--gpu-memory 24g IMAGE", "leeway.gpu.memory=24GiB", 2),
            ("--hold-max 5s IMAGE", "leeway.hold.max=5s", 2),
            ("--swap IMAGE", "leeway.swap=true", 1),
            ("--migrate=false IMAGE", "leeway.migrate=false", 1),
        ] {
            assert_eq!(meant(line), Some((Meant::Label(expected.to_owned()), taken)), "{line}");
        }
        assert_eq!(meant("--node auto IMAGE"), Some((Meant::Node("auto".to_owned()), 2)));
    }

    #[test]
    fn what_is_dockers_is_not_ours() {
        for line in
            ["-dl a=b IMAGE", "-dl=a=b IMAGE", "-d IMAGE", "-dlx IMAGE", "--deadlines 2", "--label x", "-l x"]
        {
            assert_eq!(meant(line), None, "{line}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_accepted() {
        assert!(refusal("-dl 25h IMAGE").contains("'25h'") && refusal("-dl 25h IMAGE").contains("1m30s"));
        assert!(refusal("--deadline").contains("--deadline needs a value"));
        assert!(refusal("--deadline= IMAGE").contains("''"));
        assert!(refusal("--gpu-memory 24GB IMAGE").contains("24GiB"));
        assert!(refusal("--task server IMAGE").contains("burst"));
        assert!(refusal("--swap=perhaps IMAGE").contains("'perhaps'"));
        assert!(refusal("--node= IMAGE").contains("auto"));
    }
}
