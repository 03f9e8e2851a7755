//! Where a cluster's record is kept: in swarm's own store, which every manager has, or in a folder.
//!
//! Swarm has no place for a record that changes, but it has configs, which are kept by Raft on every manager and cannot be
//! changed: each version is a config of its own, named by its number. Of two who write at once one finds the name taken
//! and starts again. Whoever may read them may make certificates; they are who may use a manager's Docker, which is to be root.

use bollard::Docker;
use bollard::errors::Error as DockerError;
use bollard::models::{Config, ConfigSpec};
use bollard::query_parameters::ListConfigsOptions;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wire::kept::Kept;
use wire::replace::replace_for_good;

/// What the configs are called, before their number.
const CONFIG: &str = "leeway-cluster-";
/// The label they are found by.
const LABEL: &str = "leeway.cluster";
/// How many versions are left, so that a writer that was slow meets the name it wants.
const VERSIONS_LEFT: u64 = 8;
/// Docker takes no config that is longer than 1000 KiB. Some of that is left for what is no node: masters, and a new token.
const RECORD_BYTES_MAX: usize = 960 << 10;
/// How often a writer starts again.
const TRIES_MAX: u32 = 16;
/// What Docker answers where a name is taken.
const CONFLICT: u16 = 409;
/// The file in a folder.
const FILE: &str = "cluster.json";

/// Where the record is.
#[derive(Clone)]
pub enum Store {
    /// With swarm's managers.
    Swarm(Docker),
    /// In a folder of one machine.
    Folder(PathBuf),
}

/// Why the record could not be had.
#[derive(Debug, thiserror::Error)]
pub enum NoRecord {
    /// There is none.
    #[error("there is no cluster yet: `leeway cluster init` makes one")]
    None,
    /// There is one already.
    #[error("there is a cluster already")]
    Exists,
    /// A file could not be read or written.
    #[error("could not keep the cluster's record in {0}")]
    File(PathBuf, #[source] io::Error),
    /// Docker refused.
    #[error("could not keep the cluster's record in the swarm")]
    Swarm(#[from] DockerError),
    /// It is no record.
    #[error("the cluster's record cannot be understood")]
    Json(#[from] serde_json::Error),
    /// Others change it all the time.
    #[error("others changed the cluster's record {TRIES_MAX} times meanwhile")]
    Busy,
    /// The change itself was refused.
    #[error("{0}")]
    Refused(String),
}

/// What tells one version of the record from another before it is read: with thousands of nodes reading takes its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The number of a config.
    Config(u64),
    /// A file's number and when it was written: each version is a file of its own.
    File(u64, i64, i64),
}

impl Store {
    /// The record, if it is not the one that was `seen`.
    pub(crate) async fn read_if_new(&self, seen: &mut Option<Mark>) -> Result<Option<Kept>, NoRecord> {
        let (mark, kept) = match self {
            Store::Folder(folder) => {
                let path = folder.join(FILE);
                let about = std::fs::metadata(&path).map_err(|error| NoRecord::File(path, error))?;
                let mark = Mark::File(about.ino(), about.mtime(), about.mtime_nsec());
                if seen.as_ref() == Some(&mark) {
                    return Ok(None);
                }
                (mark, read_file(folder)?)
            }
            Store::Swarm(docker) => {
                let configs = configs(docker).await?;
                let mark = Mark::Config(configs.iter().filter_map(number).max().ok_or(NoRecord::None)?);
                if seen.as_ref() == Some(&mark) {
                    return Ok(None);
                }
                (mark, newest(&configs).ok_or(NoRecord::None)??)
            }
        };
        *seen = Some(mark);
        Ok(Some(kept))
    }

    /// The record as it is now.
    pub async fn read(&self) -> Result<Kept, NoRecord> {
        match self {
            Store::Folder(folder) => read_file(folder),
            Store::Swarm(docker) => newest(&configs(docker).await?).ok_or(NoRecord::None)?,
        }
    }

    /// Whether a record has no room for another node.
    pub(crate) fn is_full(kept: &Kept) -> bool {
        serde_json::to_vec(kept).is_ok_and(|text| text.len() > RECORD_BYTES_MAX)
    }

    /// Makes the first record.
    pub async fn create(&self, kept: &Kept) -> Result<(), NoRecord> {
        match self.read().await {
            Err(NoRecord::None) => {}
            Err(other) => return Err(other),
            Ok(_) => return Err(NoRecord::Exists),
        }
        match self {
            Store::Folder(folder) => write_file(folder, kept),
            Store::Swarm(docker) => match write_config(docker, kept).await? {
                Written::Here => Ok(()),
                Written::Overtaken => Err(NoRecord::Exists),
            },
        }
    }

    /// Changes the record. `change` may be called again, with what others made of it meanwhile.
    pub async fn change<T>(
        &self,
        mut change: impl FnMut(&mut Kept) -> Result<T, String>,
    ) -> Result<(T, Kept), NoRecord> {
        for _ in 0..TRIES_MAX {
            let _lock = self.lock()?;
            let mut kept = self.read().await?;
            let before = kept.clone();
            let made = change(&mut kept).map_err(NoRecord::Refused)?;
            if kept == before {
                return Ok((made, kept));
            }
            kept.version += 1;
            let written = match self {
                Store::Folder(folder) => write_file(folder, &kept).map(|()| Written::Here)?,
                Store::Swarm(docker) => write_config(docker, &kept).await?,
            };
            if matches!(written, Written::Here) {
                return Ok((made, kept));
            }
        }
        Err(NoRecord::Busy)
    }

    /// In a folder only one may write at a time; the lock goes with the file that is returned.
    fn lock(&self) -> Result<Option<std::fs::File>, NoRecord> {
        let Store::Folder(folder) = self else { return Ok(None) };
        let path = folder.join("cluster.lock");
        let failed = |error| NoRecord::File(path.clone(), error);
        // Without a record there is nothing to lock, and perhaps no folder either.
        if !folder.join(FILE).exists() {
            return Err(NoRecord::None);
        }
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(Some(file))
    }
}

enum Written {
    Here,
    Overtaken,
}

fn read_file(folder: &Path) -> Result<Kept, NoRecord> {
    let path = folder.join(FILE);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(NoRecord::None),
        Err(error) => Err(NoRecord::File(path, error)),
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
    }
}

fn write_file(folder: &Path, kept: &Kept) -> Result<(), NoRecord> {
    let path = folder.join(FILE);
    let failed = |error| NoRecord::File(path.clone(), error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let text = serde_json::to_vec(kept)?;
    // Whoever reads it can make certificates.
    replace_for_good(&path, text, 0o600).map_err(failed)
}

async fn configs(docker: &Docker) -> Result<Vec<Config>, DockerError> {
    let filters = HashMap::from([("label".to_owned(), vec![LABEL.to_owned()])]);
    docker.list_configs(Some(ListConfigsOptions { filters: Some(filters) })).await
}

fn number(config: &Config) -> Option<u64> {
    config.spec.as_ref()?.name.as_ref()?.strip_prefix(CONFIG)?.parse().ok()
}

fn newest(configs: &[Config]) -> Option<Result<Kept, NoRecord>> {
    use base64::Engine;
    let config = configs.iter().filter(|config| number(config).is_some()).max_by_key(|one| number(one))?;
    let data = config.spec.as_ref()?.data.as_ref()?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).ok()?;
    Some(serde_json::from_slice(&bytes).map_err(NoRecord::Json))
}

async fn write_config(docker: &Docker, kept: &Kept) -> Result<Written, NoRecord> {
    use base64::Engine;
    let spec = ConfigSpec {
        name: Some(format!("{CONFIG}{}", kept.version)),
        labels: Some(HashMap::from([(LABEL.to_owned(), String::new())])),
        data: Some(base64::engine::general_purpose::STANDARD.encode(serde_json::to_vec(kept)?)),
        ..ConfigSpec::default()
    };
    match docker.create_config(spec).await {
        Err(DockerError::DockerResponseServerError { status_code: CONFLICT, .. }) => {
            return Ok(Written::Overtaken);
        }
        other => drop(other?),
    }
    let all = configs(docker).await?;
    let overtaken = all.iter().filter_map(number).any(|other| other > kept.version);
    let is_old = |config: &&Config| {
        let number = number(config);
        number.is_some_and(|number| number + VERSIONS_LEFT <= kept.version)
            || (overtaken && number == Some(kept.version))
    };
    for old in all.iter().filter(is_old).filter_map(|config| config.id.as_ref()) {
        // Another master may have removed it first.
        let _ = docker.delete_config(old).await;
    }
    Ok(if overtaken { Written::Overtaken } else { Written::Here })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn settled<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_record_in_a_folder_is_made_once_and_changed_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::Folder(folder.path().to_owned());
        assert!(matches!(settled(store.read()), Err(NoRecord::None)));
        let nowhere = Store::Folder(folder.path().join("nowhere"));
        assert!(matches!(settled(nowhere.change(|_| Ok(()))), Err(NoRecord::None)));
        settled(store.create(&Kept { secret: "one".to_owned(), ..Kept::default() })).unwrap();
        assert!(matches!(settled(store.create(&Kept::default())), Err(NoRecord::Exists)));
        let (was, kept) =
            settled(store.change(|kept| Ok(std::mem::replace(&mut kept.secret, "two".to_owned())))).unwrap();
        assert_eq!((was.as_str(), kept.secret.as_str(), kept.version), ("one", "two", 1));
        assert_eq!(settled(store.read()).unwrap(), kept);
        let mut seen = None;
        assert_eq!(settled(store.read_if_new(&mut seen)).unwrap().as_ref(), Some(&kept));
        assert_eq!(settled(store.read_if_new(&mut seen)).unwrap(), None);
        let (_, kept) =
            settled(store.change(|kept| Ok(std::mem::replace(&mut kept.secret, "three".to_owned()))))
                .unwrap();
        assert_eq!(settled(store.read_if_new(&mut seen)).unwrap(), Some(kept));
        let refused = settled(store.change(|_| Err::<(), _>("no".to_owned())));
        assert!(matches!(refused, Err(NoRecord::Refused(_))));
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_record_is_full_before_docker_says_so() {
        let node = |number: usize| {
            let node = wire::kept::KeptNode { engine_id: "e".repeat(25), key: "k".repeat(64) };
            (format!("node-{number}"), node)
        };
        let with = |nodes: usize| Kept { nodes: (0..nodes).map(node).collect(), ..Kept::default() };
        assert!(!Store::is_full(&with(7000)));
        assert!(Store::is_full(&with(8000)));
    }
}
