//! The library's tie to the device, between `nvmlInit` and `nvmlShutdown`.

use crate::answers::{DRIVER_NOT_LOADED, GPU_IS_LOST, INVALID_ARGUMENT, Outcome, UNINITIALIZED};
use gpu::client::{Connection, socket_beside};
use gpu::message::Request;
use gpu::status;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// What a device was like a moment ago.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) total_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) percent: u32,
    pub(crate) memory_percent: u32,
    /// Pid and bytes of each process.
    pub(crate) processes: Vec<(u32, u64)>,
}

/// While it is open, `nvmlInit` was called more often than `nvmlShutdown`.
struct Session {
    users: u32,
    /// Nothing after the device went away; the next call looks whether it is back.
    connection: Option<Connection>,
    devices: u64,
    /// For each device a connection on which its news come, and the last of them.
    news: HashMap<u64, (Connection, Outcome<Snapshot>)>,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

pub(crate) fn open() -> Outcome {
    let mut session = lock();
    if let Some(session) = session.as_mut() {
        session.users += 1;
        return Ok(());
    }
    let connection = connect().ok_or(DRIVER_NOT_LOADED)?;
    let (_, words) = connection.ask(Request::Count {}).map_err(|_| DRIVER_NOT_LOADED)?;
    let devices = words.first().copied().unwrap_or(0);
    *session = Some(Session { users: 1, connection: Some(connection), devices, news: HashMap::new() });
    Ok(())
}

pub(crate) fn close() -> Outcome {
    let mut session = lock();
    let users = session.as_mut().map(|session| {
        session.users -= 1;
        session.users
    });
    if users == Some(0) {
        *session = None;
    }
    users.map(drop).ok_or(UNINITIALIZED)
}

/// How many devices there are.
pub(crate) fn devices() -> Outcome<u64> {
    lock().as_ref().map(|session| session.devices).ok_or(UNINITIALIZED)
}

/// A device's number, from its handle: one more, because a handle is not null.
pub(crate) fn device(handle: u64) -> Outcome<u64> {
    let devices = devices()?;
    handle.checked_sub(1).filter(|device| *device < devices).ok_or(INVALID_ARGUMENT)
}

pub(crate) fn snapshot(handle: u64) -> Outcome<Snapshot> {
    let device = device(handle)?;
    let mut session = lock();
    let session = session.as_mut().ok_or(UNINITIALIZED)?;
    if let Some((connection, last)) = session.news.get_mut(&device) {
        match connection.newest() {
            Ok(Some(newest)) => *last = read(newest),
            Ok(None) => {}
            // The device went away, or did not wait for us: the next connection starts anew.
            Err(_) => drop(session.news.remove(&device)),
        }
    }
    if let Some((_, last)) = session.news.get(&device) {
        return last.clone();
    }
    let connection = connect().ok_or(GPU_IS_LOST)?;
    let first = read(connection.ask(Request::Subscribe { device }).map_err(|_| GPU_IS_LOST)?);
    session.news.insert(device, (connection, first.clone()));
    first
}

fn read((status, words): (u32, Vec<u64>)) -> Outcome<Snapshot> {
    if status != status::SUCCESS {
        return Err(GPU_IS_LOST);
    }
    let figure = |at: usize| words.get(at).copied().unwrap_or(0);
    let (pairs, _) = words.get(4..).unwrap_or_default().as_chunks::<2>();
    Ok(Snapshot {
        total_bytes: figure(0),
        used_bytes: figure(1),
        percent: figure(2) as u32,
        memory_percent: figure(3) as u32,
        processes: pairs.iter().map(|[pid, bytes]| (*pid as u32, *bytes)).collect(),
    })
}

/// Pid, time in microseconds and percent of each sample later than that.
pub(crate) fn samples(handle: u64, after_us: u64) -> Outcome<Vec<[u64; 3]>> {
    let device = device(handle)?;
    let mut session = lock();
    let words = session.as_mut().ok_or(UNINITIALIZED)?.ask(Request::Samples { device, after_us })?;
    Ok(words.as_chunks::<3>().0.to_vec())
}

impl Session {
    fn ask(&mut self, request: Request) -> Outcome<Vec<u64>> {
        if self.connection.is_none() {
            self.connection = connect();
        }
        let connection = self.connection.as_ref().ok_or(GPU_IS_LOST)?;
        match connection.ask(request) {
            Ok((status::SUCCESS, words)) => Ok(words),
            Ok(_) => Err(GPU_IS_LOST),
            Err(_) => {
                self.connection = None;
                Err(GPU_IS_LOST)
            }
        }
    }
}

fn connect() -> Option<Connection> {
    Connection::open(&socket_beside(connect as *const () as usize)).ok()
}

fn lock() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
