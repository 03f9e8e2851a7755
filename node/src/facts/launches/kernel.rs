//! The programs and tables in the kernel: loaded, attached, and taken out again.
//!
//! `aya` parses the object and makes the tables. The programs are loaded and attached by hand, as `uprobe_multi` links (Linux 6.6), which aya 0.14
//! does not know: one link has all functions of a library. With a link for each function, letting go of one process's probes
//! took 13 seconds, 0.1 for each; with one for all of them it takes as long as for one.
#![allow(unsafe_code, reason = "two system calls that no library offers")]

use super::layout::{Control, GpuOrders, GpuState, Orders, Span, Standing};
use super::symbols::Points;
use super::threads;
use aya::maps::{Array, HashMap, Map, MapData, RingBuf};
use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_type};
use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The compiled programs. `bpf/build` makes them; a test says whether they are of this source.
pub(super) const OBJECT: &[u8] = aya::include_bytes_aligned!("../../../../bpf/launches.bpf.o");

/// Of a link: the program runs when the functions return.
const ON_RETURN: u32 = 1;

/// Why probes cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("the kernel refuses {what}: {error}")]
    Kernel { what: &'static str, error: io::Error },
    #[error("the compiled programs cannot be understood: {0}")]
    Object(String),
    #[error("this kernel's probes see one thread of a process only; Linux 6.10 and later see all")]
    OneThread,
}

/// The tables.
pub(super) struct Tables {
    pub(super) slots: HashMap<MapData, u32, u32>,
    pub(super) orders: Array<MapData, Orders>,
    pub(super) spans: Array<MapData, Span>,
    pub(super) resumed: HashMap<MapData, u32, u64>,
    pub(super) standing: HashMap<MapData, u32, Standing>,
    pub(super) gpu_orders: Array<MapData, GpuOrders>,
    pub(super) gpu_states: Array<MapData, GpuState>,
    pub(super) control: Array<MapData, Control>,
    pub(super) dropped: Array<MapData, u64>,
    /// When it was last told of a process that it did something of one kind: its first call, or a context.
    pub(super) told: HashMap<MapData, [u32; 2], u64>,
    /// The descriptors of `control` and `standing`, for the guard.
    pub(super) guards: (OwnedFd, OwnedFd),
}

/// The programs.
pub(super) struct Programs {
    entry: OwnedFd,
    returns: OwnedFd,
    /// What only the programs use; they keep it alive, and so do we.
    _private: Vec<MapData>,
}

/// Probes on one library, until this is dropped.
#[derive(Debug)]
pub(super) struct Link {
    _entries: Option<OwnedFd>,
    _returns: Option<OwnedFd>,
}

/// Loads everything. Nothing is attached yet.
pub(super) fn load() -> Result<(Programs, Tables, RingBuf<MapData>), Refused> {
    let mut object = aya_obj::Object::parse(OBJECT).map_err(|error| Refused::Object(error.to_string()))?;
    let mut maps: Vec<(String, MapData)> = Vec::new();
    for (name, map) in &object.maps {
        // Without its type information, which only programs with timers or locks would need.
        let plain = aya_obj::Map::new_from_params(
            map.map_type(),
            map.key_size(),
            map.value_size(),
            map.max_entries(),
            map.map_flags(),
        );
        let made = MapData::create(plain, name, None);
        maps.push((name.clone(), made.map_err(|error| refused("a table", &error))?));
    }
    let parsed = object.maps.clone();
    let fds = maps.iter().map(|(name, data)| (name.as_str(), data.fd().as_fd().as_raw_fd(), &parsed[name]));
    object.relocate_maps(fds, &HashSet::new()).map_err(|error| Refused::Object(error.to_string()))?;
    let program = |name: &str| {
        let program =
            object.programs.get(name).ok_or_else(|| Refused::Object(format!("no program {name}")))?;
        load_program(name, &object.functions[&program.function_key()].instructions)
            .map_err(|error| Refused::Kernel { what: "a program", error })
    };
    let (entry, returns) = (program("on_entry")?, program("on_return")?);
    let descriptor = |name: &str| {
        let found = maps.iter().find(|(known, _)| known == name).map(|(_, data)| data.fd().as_fd());
        found.map_or(Err(io::ErrorKind::NotFound.into()), |fd| fd.try_clone_to_owned())
    };
    let no_descriptor = |error| Refused::Kernel { what: "a descriptor", error };
    let guards =
        (descriptor("CONTROL").map_err(no_descriptor)?, descriptor("STANDING").map_err(no_descriptor)?);
    let mut take = |name: &str| {
        let at = maps.iter().position(|(known, _)| known == name);
        at.map(|at| maps.swap_remove(at).1).ok_or_else(|| Refused::Object(format!("no table {name}")))
    };
    let wrong = |error: aya::maps::MapError| Refused::Object(error.to_string());
    let tables = Tables {
        slots: Map::HashMap(take("SLOTS")?).try_into().map_err(wrong)?,
        orders: Map::Array(take("ORDERS")?).try_into().map_err(wrong)?,
        spans: Map::Array(take("SPANS")?).try_into().map_err(wrong)?,
        resumed: Map::HashMap(take("RESUMED")?).try_into().map_err(wrong)?,
        standing: Map::HashMap(take("STANDING")?).try_into().map_err(wrong)?,
        gpu_orders: Map::Array(take("GPU_ORDERS")?).try_into().map_err(wrong)?,
        gpu_states: Map::Array(take("GPU_STATES")?).try_into().map_err(wrong)?,
        control: Map::Array(take("CONTROL")?).try_into().map_err(wrong)?,
        dropped: Map::Array(take("DROPPED")?).try_into().map_err(wrong)?,
        told: Map::LruHashMap(take("TOLD")?).try_into().map_err(wrong)?,
        guards,
    };
    let mut ring = Map::RingBuf(take("EVENTS")?).try_into().map_err(wrong)?;
    let private = maps.into_iter().map(|(_, data)| data).collect();
    let programs = Programs { entry, returns, _private: private };
    match threads::are_seen(&programs, &mut ring) {
        Ok(true) => Ok((programs, tables, ring)),
        Ok(false) => Err(Refused::OneThread),
        Err(error) => Err(Refused::Kernel { what: "a probe", error }),
    }
}

impl Programs {
    /// Attaches to a library: for one process, or for all.
    pub(super) fn attach(
        &self,
        library: &Path,
        pid: Option<u32>,
        entries: &Points,
        returns: &Points,
    ) -> io::Result<Link> {
        let link = |program: &OwnedFd, points: &Points, flags| {
            (!points.offsets.is_empty())
                .then(|| attach(program.as_raw_fd(), library, pid, points, flags))
                .transpose()
        };
        // First where calls return: one that was entered before its entry was probed is none, and one that is not seen to return lasts for ever.
        let returns = link(&self.returns, returns, ON_RETURN)?;
        Ok(Link { _entries: link(&self.entry, entries, 0)?, _returns: returns })
    }
}

fn refused(what: &'static str, error: &dyn std::error::Error) -> Refused {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Refused::Kernel { what, error: io::Error::other(cause.to_string()) }
}

/// How long a program's name can be.
const PROGRAM_NAME_MAX: usize = 15;

/// `BPF_PROG_LOAD`, for a program that is attached to many functions at once.
fn load_program(name: &str, instructions: &[bpf_insn]) -> io::Result<OwnedFd> {
    // SAFETY: all bytes zero is a value of this union of integers.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    let load = bpf_attr_load(&mut attr);
    load.prog_type = bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32;
    load.expected_attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    load.insns = instructions.as_ptr() as u64;
    load.insn_cnt = instructions.len() as u32;
    load.license = c"GPL".as_ptr() as u64;
    // What `bpftool prog` shows: whose it is, and a zero at its end.
    let shown = format!("leeway_{name}");
    for (to, byte) in load.prog_name.iter_mut().zip(shown.bytes().take(PROGRAM_NAME_MAX)) {
        *to = byte.cast_signed();
    }
    bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)
}

fn bpf_attr_load(attr: &mut bpf_attr) -> &mut aya_obj::generated::bpf_attr__bindgen_ty_4 {
    // SAFETY: every field is an integer, and the union was zeroed, so this view of it is initialised.
    unsafe { &mut attr.__bindgen_anon_3 }
}

/// `BPF_LINK_CREATE` of a `uprobe_multi` link.
fn attach(
    program: RawFd,
    library: &Path,
    pid: Option<u32>,
    points: &Points,
    flags: u32,
) -> io::Result<OwnedFd> {
    let path = CString::new(library.as_os_str().as_bytes())?;
    // SAFETY: all bytes zero is a value of this union of integers.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: every field is an integer, and the union was zeroed, so this view of it is initialised.
    let create = unsafe { &mut attr.link_create };
    create.__bindgen_anon_1.prog_fd = program.cast_unsigned();
    create.attach_type = bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32;
    // SAFETY: as above.
    let multi = unsafe { &mut create.__bindgen_anon_3.uprobe_multi };
    multi.path = path.as_ptr() as u64;
    multi.offsets = points.offsets.as_ptr() as u64;
    multi.cookies = points.cookies.as_ptr() as u64;
    multi.cnt = points.offsets.len() as u32;
    multi.flags = flags;
    multi.pid = pid.unwrap_or(0);
    bpf(bpf_cmd::BPF_LINK_CREATE, &mut attr)
}

fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `attr`, whose pointers are to buffers that outlive this call, with the lengths given beside them.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_long, &raw mut *attr, size_of::<bpf_attr>())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new file descriptor, which is ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}
