//! `leeway gpu`: a simulated GPU, for machines that have none.

use crate::failure::Failure;
use crate::gpu::folder::Folder;
use crate::gpu::options;
use ::gpu::client::Connection;
use ::gpu::costs::{LISTED_AFTER_NS, Settings, UNLISTED_AFTER_NS};
use ::gpu::message::Request;
use ::gpu::server::Server;
use anyhow::{Context, Result};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The most devices of one simulated GPU: a client's list of those it sees has a bit for each.
const DEVICES_MAX: u64 = 64;
const MILLISECOND_NS: u64 = 1_000_000;

/// Simulate a GPU, for machines that have none
#[derive(clap::Args)]
pub struct Gpu {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Simulate(Simulate),
    Options(Options),
    /// Let a device fail: from now on every call on it does
    Lose(Device),
    /// Bring a lost device back
    Recover(Device),
}

/// Be a simulated GPU until Ctrl-C
///
/// Puts a libcuda.so.1 and a libnvidia-ml.so.1 into the folder that behave like NVIDIA's, and a line on standard
/// output when all is ready. Programs use the GPU with `LD_LIBRARY_PATH` set to the folder, containers with what
/// `leeway gpu options` prints, and the agent with `--driver`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  leeway gpu simulate --devices 2 --memory 24GiB --dir ./gpu0")]
struct Simulate {
    /// How many devices it has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=DEVICES_MAX))]
    devices: u64,
    /// Memory of each
    #[arg(long, value_name = "M", default_value = "24GiB", value_parser = wire::bytes::parse)]
    memory: u64,
    /// The folder for its libraries and its socket
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// How long after a process's start NVML lists it
    #[arg(long, value_name = "MS", default_value_t = LISTED_AFTER_NS / MILLISECOND_NS, value_parser = delay)]
    listed_after_ms: u64,
    /// How long after a process's end NVML still lists it
    #[arg(long, value_name = "MS", default_value_t = UNLISTED_AFTER_NS / MILLISECOND_NS, value_parser = delay)]
    unlisted_after_ms: u64,
}

/// Print the Docker options that give a container the simulated GPU
///
/// They mount the driver's libraries as NVIDIA's container toolkit does, and this program with all it needs.
#[derive(clap::Args)]
#[command(after_help = "Example:
  leeway run $(leeway gpu options --dir ./gpu0) ANY-IMAGE leeway work matmul --n 4096 --json")]
struct Options {
    /// The folder of a running simulated GPU
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The one device that the container sees [default: all]
    #[arg(long, value_name = "I")]
    device: Option<usize>,
}

#[derive(clap::Args)]
struct Device {
    /// The folder of a running simulated GPU
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Which of its devices
    #[arg(long, value_name = "I", default_value_t = 0)]
    device: u64,
}

impl Gpu {
    pub(crate) fn run(self) -> Result<()> {
        match self.action {
            Action::Simulate(simulate) => simulate.run(),
            Action::Options(asked) => {
                let words = options::of(&asked.dir, asked.device)?;
                super::print_all(format!("{}\n", words.join(" ")).as_bytes())
            }
            Action::Lose(device) => device.tell(|device| Request::Lose { device }),
            Action::Recover(device) => device.tell(|device| Request::Recover { device }),
        }
    }
}

impl Simulate {
    fn run(self) -> Result<()> {
        let doing = || format!("could not simulate a GPU in {}", self.dir.display());
        let settings = Settings {
            devices: self.devices as usize,
            memory_bytes: self.memory,
            listed_after_ns: self.listed_after_ms * MILLISECOND_NS,
            unlisted_after_ns: self.unlisted_after_ms * MILLISECOND_NS,
        };
        let ended = end_by_signal().with_context(doing)?;
        let mut folder = Folder::open(&self.dir).with_context(doing)?;
        let server = Server::open(folder.path(), settings).with_context(doing)?;
        folder.fill().with_context(doing)?;
        let gpus = if self.devices == 1 { "GPU" } else { "GPUs" };
        let (devices, mebibytes, path) = (self.devices, self.memory >> 20, folder.path().display());
        let ready = format!("ready: {devices} simulated {gpus} of {mebibytes} MiB in {path}\n");
        super::print_all(ready.as_bytes())?;
        std::io::stdout().flush().with_context(doing)?;
        server.run(ended.as_fd()).with_context(doing)
    }
}

impl Device {
    fn tell(self, request: impl Fn(u64) -> Request) -> Result<()> {
        let connection = reach(&self.dir)?;
        let (status, _) = connection.ask(request(self.device)).context("the simulated GPU did not answer")?;
        if status == ::gpu::status::SUCCESS {
            return Ok(());
        }
        Err(Failure::input(format!("there is no device {} in {}", self.device, self.dir.display())).into())
    }
}

fn reach(folder: &Path) -> Result<Connection> {
    let connection = Connection::open(&folder.join(::gpu::SOCKET));
    connection.with_context(|| format!("could not reach a simulated GPU in {}", folder.display()))
}

/// A socket that can be read once Ctrl-C or SIGTERM came.
fn end_by_signal() -> std::io::Result<UnixStream> {
    let (ended, signalled) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    Ok(ended)
}

/// Longer than this, a process would come and go unseen.
fn delay(text: &str) -> Result<u64, String> {
    const DELAY_MS_MAX: u64 = 10_000;
    let delay = text.parse::<u64>().ok().filter(|delay| *delay <= DELAY_MS_MAX);
    delay.ok_or_else(|| format!("no delay, accepted are 0 to {DELAY_MS_MAX} milliseconds"))
}
