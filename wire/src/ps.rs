//! What `leeway ps --json` prints: one object a line, one line a container.

use crate::labels::Mode;
use serde::Serialize;

/// One container. An agent adds keys of its own once it runs; without one they are absent, not null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PsContainer {
    /// The full id, 64 hexadecimal digits.
    pub id: String,
    /// Its name, without Docker's leading slash.
    pub name: String,
    /// The image, as it was named when the container was created.
    pub image: String,
    /// The command, in full.
    pub command: String,
    /// Docker's sentence about its state, such as `Up 2 hours`.
    pub status: String,
    /// The deadline that counts now, override or label; null if it has none.
    pub deadline_us: Option<i64>,
    /// What delimits one of its tasks.
    pub mode: Mode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_those_scripts_rely_on() {
        let container = PsContainer {
            id: "4f".repeat(32),
            name: "infer".to_owned(),
            image: "model:1".to_owned(),
            command: "serve --port 80".to_owned(),
            status: "Up 2 hours".to_owned(),
            deadline_us: None,
            mode: Mode::Burst,
        };
        let expected = format!(
            r#"{{"id":"{}","name":"infer","image":"model:1","command":"serve --port 80","status":"Up 2 hours","deadline_us":null,"mode":"burst"}}"#,
            container.id
        );
        assert_eq!(serde_json::to_string(&container).unwrap(), expected);
    }
}
