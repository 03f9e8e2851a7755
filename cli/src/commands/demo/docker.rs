//! The parts as Docker containers, from an image that has nothing in it.

use super::cast::Part;
use super::ground::{Ending, Ground, Identity};
use super::sweeper::{Sweeper, Thing};
use crate::docker::client::Client;
use crate::docker::endpoint::Endpoint;
use crate::docker::globals::Globals;
use crate::docker::making::Wanted;
use crate::failure::Failure;
use crate::gpu::options::{PROGRAM_IN_CONTAINER, mounts};
use crate::stage::{Stage, wait_for};
use anyhow::Result;
use std::collections::HashMap;

/// What is tried before the show: the least that uses the GPU.
const REHEARSAL: [&str; 4] = ["work", "matmul", "--n", "64"];

/// A Docker daemon, with an image of our own.
pub(super) struct Containers {
    docker: Client,
    /// The image's name, and the start of every container's.
    run: String,
    mounts: [(String, String); 4],
}

impl Containers {
    /// Makes the image, and tries it. A daemon in a virtual machine, or one that may not read our files, answers as
    /// any other does: only a container that has used the GPU shows that it can.
    pub(super) fn open(run: &str, globals: &Globals, stage: &Stage, sweeper: &mut Sweeper) -> Result<Self> {
        let host = Endpoint::find(globals)?.host;
        if !host.starts_with("unix://") {
            return Err(Failure::new(format!(
                "the Docker daemon at {host} may be on another machine than the simulated GPU"
            ))
            .into());
        }
        let docker = Client::connect(globals)?;
        // Who does not hear of containers does not know their deadlines.
        wait_for("an agent that hears of Docker", || stage.node().is_some_and(|node| node.docker))?;
        let containers = Self { docker, run: run.to_owned(), mounts: mounts(stage.driver())? };
        sweeper.remember(&Thing::Image(run.to_owned()))?;
        containers.docker.import_empty_image(run, "latest")?;
        containers.rehearse(sweeper)?;
        Ok(containers)
    }

    fn rehearse(&self, sweeper: &mut Sweeper) -> Result<()> {
        let id = self.run_one("rehearsal", &REHEARSAL, HashMap::new(), sweeper)?;
        let mut ended = Ok(None);
        wait_for("the end of a container", || {
            ended = self.ending(&id);
            !matches!(ended, Ok(None))
        })?;
        if let Some(Ending::Badly(why)) = ended? {
            return Err(Failure::new(format!("a container cannot use the simulated GPU: {why}")).into());
        }
        self.docker.remove(&id)
    }

    fn run_one(
        &self,
        name: &str,
        words: &[&str],
        labels: HashMap<String, String>,
        sweeper: &mut Sweeper,
    ) -> Result<String> {
        let name = format!("{}-{name}", self.run);
        let program = std::iter::once(PROGRAM_IN_CONTAINER).chain(words.iter().copied());
        let words = program.map(str::to_owned).collect();
        sweeper.remember(&Thing::Container(name.clone()))?;
        let wanted = Wanted { name: &name, image: &self.run, words, labels, mounts: &self.mounts };
        let id = self.docker.create(wanted)?;
        self.docker.start(&id)?;
        Ok(id)
    }

    fn ending(&self, id: &str) -> Result<Option<Ending>> {
        Ok(match self.docker.exit_code(id)? {
            None => None,
            Some(0) => Some(Ending::Well),
            Some(code) => {
                let said = self.docker.last_line(id).unwrap_or_default();
                Some(Ending::Badly(format!("exit code {code}: {said}")))
            }
        })
    }
}

impl Ground for Containers {
    fn start(&mut self, part: &'static Part, _stage: &Stage, sweeper: &mut Sweeper) -> Result<Identity> {
        let (label, value) = part.label();
        let labels = HashMap::from([(label.to_owned(), value.to_owned())]);
        Ok(Identity::Container(self.run_one(part.name, part.words, labels, sweeper)?))
    }

    fn ended(&mut self, who: &Identity) -> Result<Option<Ending>> {
        who.container().map_or(Ok(None), |id| self.ending(id))
    }
}
