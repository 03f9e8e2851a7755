//! A connection to the device, as the simulated libraries hold it: one per thread, so that none waits for another.

use crate::message::{REPLY_WORDS_MAX, REQUEST_WORDS_MAX, Request, to_words};
use crate::{FOLDER_IN_CONTAINER, SOCKET};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Room for most replies: a status and a few figures.
const SMALL_REPLY_BYTES: usize = 64;

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    /// Kept from one list to the next: a monitor asks hundreds of times a second.
    large: RefCell<Vec<u8>>,
}

impl Connection {
    /// Connects to the device behind a socket.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self { socket, large: RefCell::default() })
    }

    /// Submits work: nothing comes back. It waits only while the device has hundreds of requests of ours unread.
    pub fn send(&self, request: Request) -> io::Result<()> {
        let (words, used) = request.encode();
        // No memory is allocated: a launch is to cost microseconds, as the real one does.
        let mut bytes = [[0; 8]; REQUEST_WORDS_MAX];
        bytes.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_ne_bytes());
        loop {
            match rustix::net::send(&self.socket, bytes[..used].as_flattened(), SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Asks, and waits for the answer: a status, and what was asked for.
    pub fn ask(&self, request: Request) -> io::Result<(u32, Vec<u64>)> {
        self.send(request)?;
        let mut small = [0; SMALL_REPLY_BYTES];
        let mut large = self.large.borrow_mut();
        let buffer = if request.has_large_reply() {
            large.resize(REPLY_WORDS_MAX * 8, 0);
            &mut large[..]
        } else {
            &mut small[..]
        };
        loop {
            match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((length, _)) => {
                    let mut words = to_words(&buffer[..length]);
                    let status = if words.is_empty() { 0 } else { words.remove(0) };
                    return Ok((status as u32, words));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Connection {
    /// What came unasked, if anything did: the newest of it.
    pub fn newest(&self) -> io::Result<Option<(u32, Vec<u64>)>> {
        let mut large = self.large.borrow_mut();
        large.resize(REPLY_WORDS_MAX * 8, 0);
        let mut newest = None;
        loop {
            match rustix::net::recv(&self.socket, &mut large[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((length, _)) => {
                    let mut words = to_words(&large[..length]);
                    let status = if words.is_empty() { 0 } else { words.remove(0) };
                    newest = Some((status as u32, words));
                }
                Err(Errno::AGAIN) => return Ok(newest),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Where the device's socket is for a library that is at an address of this process: beside the library's file on
/// the host, in [`FOLDER_IN_CONTAINER`] where only the library was mounted.
pub fn socket_beside(address: usize) -> PathBuf {
    let beside = library_at(address).and_then(|library| Some(library.parent()?.join(SOCKET)));
    beside.filter(|socket| socket.exists()).unwrap_or_else(|| Path::new(FOLDER_IN_CONTAINER).join(SOCKET))
}

/// The file that is mapped at an address, as the kernel has it.
fn library_at(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        let path = rest.get(rest.find('/')?..)?;
        (from..to).contains(&address).then(|| PathBuf::from(path))
    })
}
