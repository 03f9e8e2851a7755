//! What `leeway ps --json` prints: one object a line, one line a container.

use crate::agent::Live;
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
    /// What only an agent knows: `gpu`, `state`, `float_us`, `hits`, `misses`.
    #[serde(flatten)]
    pub live: Option<Live>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::State;

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
            live: None,
        };
        let expected = format!(
            r#"{{"id":"{}","name":"infer","image":"model:1","command":"serve --port 80","status":"Up 2 hours","deadline_us":null,"mode":"burst"}}"#,
            container.id
        );
        assert_eq!(serde_json::to_string(&container).unwrap(), expected);
        let live = Live { gpu: Some(0), state: State::Running, float_us: Some(-5), hits: 2, misses: 1 };
        let with_agent = serde_json::to_string(&PsContainer { live: Some(live), ..container }).unwrap();
        let added = r#","gpu":0,"state":"running","float_us":-5,"hits":2,"misses":1}"#;
        assert!(with_agent.ends_with(added), "{with_agent}");
    }
}
