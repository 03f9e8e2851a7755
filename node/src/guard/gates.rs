//! The launch gates, as the guard sees them: two of the kernel's tables, handed over when it starts.
//!
//! The kernel itself writes down whom it stops, before it does, so this list cannot lag behind; and what is shut is open once the lease
//! is over, whoever still runs through it.

use crate::facts::launches::{CONTROL_BYTES, LEASE_OVER, STANDING_BYTES};
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// How many tables are handed over.
const TABLES: usize = 2;
/// The byte they come with.
const HELLO: u8 = b'g';

/// The gates of one agent.
pub(super) struct Gates {
    control: Array<MapData, [u8; CONTROL_BYTES]>,
    standing: HashMap<MapData, u32, [u8; STANDING_BYTES]>,
}

impl Gates {
    fn new(control: OwnedFd, standing: OwnedFd) -> Result<Self, MapError> {
        Ok(Self {
            control: Map::Array(MapData::from_fd(control)?).try_into()?,
            standing: Map::HashMap(MapData::from_fd(standing)?).try_into()?,
        })
    }

    /// Opens every gate, and lets everybody run who stands at one.
    pub(super) fn open_all(&mut self) {
        let _ = self.control.set(0, LEASE_OVER, 0);
        let standing: Vec<u32> = self.standing.keys().filter_map(Result::ok).collect();
        for pid in standing {
            // In this order, or we might strike off one that was stopped anew. Should we die in between, it is on the agent's roll.
            let _ = self.standing.remove(&pid);
            if let Some(raw) = Pid::from_raw(pid.cast_signed()) {
                let _ = kill_process(raw, Signal::CONT);
            }
        }
    }
}

/// Hands the tables to a guard that has just started; an agent without probes has none.
pub(super) fn hand_over(link: impl AsFd, tables: &[OwnedFd]) -> io::Result<()> {
    let lent: Vec<BorrowedFd<'_>> = tables.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TABLES))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !lent.is_empty() {
        with.push(SendAncillaryMessage::ScmRights(&lent));
    }
    sendmsg(link, &[IoSlice::new(&[HELLO])], &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for them. None if the agent has none, or is gone.
pub(super) fn receive(link: impl AsFd) -> io::Result<Option<Gates>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TABLES))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(link, &mut [IoSliceMut::new(&mut byte)], &mut with, RecvFlags::CMSG_CLOEXEC)?;
    let fds = with.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    let mut fds = fds.collect::<Vec<OwnedFd>>().into_iter();
    match (fds.next(), fds.next()) {
        (Some(control), Some(standing)) => Gates::new(control, standing).map(Some).map_err(io::Error::other),
        _ => Ok(None),
    }
}
