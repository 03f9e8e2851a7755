//! Docker's own pause, for operators who want to see holds in `docker ps`: slower, and as visible as if a person had done it.

use super::freezer::Freezer;
use crate::run::Connect;
use std::time::Duration;

/// How long Docker may take: it goes through three processes of its own.
const DOCKER_MAX: Duration = Duration::from_secs(5);

/// Pauses a container, and looks whether it stands.
pub fn pause(connect: &Connect, id: &str, freezer: &Freezer) -> Result<(), String> {
    ask(connect, id, true)?;
    match freezer.is_frozen() {
        Ok(true) => Ok(()),
        Ok(false) => Err("Docker paused it, and it runs all the same".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Lets a container go on. Where Docker does not answer, its cgroup is thawed all the same: better that it runs and Docker
/// calls it paused than that it stands.
pub fn unpause(connect: &Connect, id: &str, freezer: Option<&Freezer>) -> Result<(), String> {
    let asked = ask(connect, id, false);
    let Some(freezer) = freezer else { return asked };
    match freezer.is_frozen() {
        Ok(true) => freezer.thaw().map_err(|error| error.to_string()),
        // Gone, or thawed already.
        Ok(false) | Err(_) => Ok(()),
    }
}

fn ask(connect: &Connect, id: &str, pause: bool) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let docker = connect()?;
        let asked = async {
            let docker = docker.negotiate_version().await?;
            if pause { docker.pause_container(id).await } else { docker.unpause_container(id).await }
        };
        match tokio::time::timeout(DOCKER_MAX, asked).await {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err(format!("Docker did not answer in {} s", DOCKER_MAX.as_secs())),
        }
    })
}
