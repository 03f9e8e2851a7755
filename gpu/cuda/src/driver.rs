//! The library's tie to the device: found when first needed, one connection per thread, one that lasts as the
//! process does.

use crate::pointers::{Outcome, code, put};
use gpu::client::{Connection, socket_beside};
use gpu::message::Request;
use gpu::status;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// What `cuInit` found.
pub(crate) struct Driver {
    /// The child of a process that called `cuInit` must call it itself, after an exec.
    pid: u32,
    /// The devices' numbers by the order in which the process sees them.
    pub(crate) visible: Vec<u64>,
    /// While it is open, the process has not ended, even if the thread that called `cuInit` has.
    _anchor: Mutex<Connection>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
static INIT: Mutex<()> = Mutex::new(());
/// Handles are numbers that were not given before. The first ones mean something else in `cuda.h`.
static HANDLES: AtomicU64 = AtomicU64::new(16);

thread_local! {
    static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

pub(crate) extern "C" fn init(flags: u32) -> u32 {
    code(if flags == 0 { initialise() } else { Err(status::INVALID_VALUE) })
}

pub(crate) extern "C" fn version(version: *mut i32) -> u32 {
    code(put(version, gpu::CUDA_VERSION))
}

fn initialise() -> Outcome {
    let _one_at_a_time = INIT.lock().map_err(|_| status::NOT_INITIALIZED)?;
    if DRIVER.get().is_some() {
        return driver().map(drop);
    }
    let anchor = Connection::open(socket()).map_err(|_| status::NO_DEVICE)?;
    let (_, count) = anchor.ask(Request::Count {}).map_err(|_| status::NO_DEVICE)?;
    let visible = visible(count.first().copied().unwrap_or(0));
    let mask = visible.iter().fold(0, |mask, device| mask | 1 << device);
    let (status, _) = anchor.ask(Request::Init { visible: mask }).map_err(|_| status::NO_DEVICE)?;
    if status != status::SUCCESS {
        return Err(status);
    }
    if visible.is_empty() {
        return Err(status::NO_DEVICE);
    }
    take_part_in_checkpoints();
    let _ = DRIVER.set(Driver { pid: std::process::id(), visible, _anchor: Mutex::new(anchor) });
    Ok(())
}

/// A thread, like those of the real driver, without which the process's memory is not moved: none of it is while
/// the process is stopped or frozen.
fn take_part_in_checkpoints() {
    let take_part = || {
        let Ok(connection) = Connection::open(socket()) else { return };
        while connection.ask(Request::Consent {}).is_ok() {}
    };
    // A process that may not have another thread is checkpointed without it.
    let _ = std::thread::Builder::new().name("cuda-checkpoint".to_owned()).spawn(take_part);
}

/// The devices that the process may use: `CUDA_VISIBLE_DEVICES` names them by number, up to the first that is none.
fn visible(count: u64) -> Vec<u64> {
    let Ok(named) = std::env::var("CUDA_VISIBLE_DEVICES") else { return (0..count).collect() };
    let numbers = named.split(',').map(|number| number.trim().parse::<u64>().ok());
    numbers.map_while(|number| number.filter(|number| *number < count)).collect()
}

/// The driver, if `cuInit` was called in this process.
pub(crate) fn driver() -> Outcome<&'static Driver> {
    DRIVER.get().filter(|driver| driver.pid == std::process::id()).ok_or(status::NOT_INITIALIZED)
}

/// The number of a device that the process sees in this place.
pub(crate) fn device(ordinal: i32) -> Outcome<u64> {
    let driver = driver()?;
    let place = usize::try_from(ordinal).map_err(|_| status::INVALID_DEVICE)?;
    driver.visible.get(place).copied().ok_or(status::INVALID_DEVICE)
}

/// A handle that was not given before.
pub(crate) fn handle() -> u64 {
    HANDLES.fetch_add(1, Relaxed)
}

/// Submits work.
pub(crate) fn send(request: Request) -> Outcome {
    with_connection(|connection| connection.send(request))
}

/// Asks, and waits for the answer.
pub(crate) fn ask(request: Request) -> Outcome<Vec<u64>> {
    let (status, words) = with_connection(|connection| connection.ask(request))?;
    if status == status::SUCCESS { Ok(words) } else { Err(status) }
}

/// A device that does not answer any more is a device that is lost.
fn with_connection<T>(talk: impl FnOnce(&Connection) -> std::io::Result<T>) -> Outcome<T> {
    CONNECTION.with_borrow_mut(|own| {
        let connection = match own {
            Some(connection) => connection,
            None => own.insert(Connection::open(socket()).map_err(|_| status::ECC_UNCORRECTABLE)?),
        };
        talk(connection).map_err(|_| status::ECC_UNCORRECTABLE)
    })
}

fn socket() -> &'static PathBuf {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(|| socket_beside(socket as *const () as usize))
}
