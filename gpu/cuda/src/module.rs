//! Modules and their functions.

use crate::driver::{self, handle};
use crate::pointers::{Outcome, bytes, code, put, text};
use crate::ptx::{self, Entry};
use gpu::status;
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, LazyLock, Mutex, RwLock};

/// How compiled modules begin: an ELF file, and a container of several.
const COMPILED: [[u8; 4]; 2] = [*b"\x7fELF", [0x50, 0xed, 0x55, 0xba]];

/// The kernels of each module; nothing is known of those of a compiled one.
static MODULES: LazyLock<Mutex<HashMap<u64, Option<Vec<Entry>>>>> = LazyLock::new(Mutex::default);
static FUNCTIONS: LazyLock<RwLock<HashMap<u64, Arc<Entry>>>> = LazyLock::new(RwLock::default);

pub(crate) extern "C" fn load(module: *mut u64, image: *const c_char) -> u32 {
    code(new(image).and_then(|new| put(module, new)))
}

pub(crate) extern "C" fn load_with_options(
    module: *mut u64,
    image: *const c_char,
    _count: u32,
    _options: *const i32,
    _values: *const *mut c_void,
) -> u32 {
    load(module, image)
}

pub(crate) extern "C" fn function(function: *mut u64, module: u64, name: *const c_char) -> u32 {
    code(find(module, name).and_then(|found| {
        let number = handle();
        FUNCTIONS.write().map_err(|_| status::INVALID_HANDLE)?.insert(number, Arc::new(found));
        put(function, number)
    }))
}

pub(crate) extern "C" fn unload(module: u64) -> u32 {
    let removed = MODULES.lock().ok().and_then(|mut modules| modules.remove(&module));
    code(removed.map(drop).ok_or(status::INVALID_HANDLE))
}

/// What a launch knows of its function.
pub(crate) fn entry(function: u64) -> Outcome<Arc<Entry>> {
    let functions = FUNCTIONS.read().map_err(|_| status::INVALID_HANDLE)?;
    functions.get(&function).cloned().ok_or(status::INVALID_HANDLE)
}

fn new(image: *const c_char) -> Outcome<u64> {
    driver::driver()?;
    let start = bytes(image.cast(), COMPILED[0].len())?;
    let entries = if COMPILED.iter().any(|compiled| compiled == start) {
        None
    } else {
        Some(ptx::entries(text(image)?).ok_or(status::INVALID_IMAGE)?)
    };
    let module = handle();
    MODULES.lock().map_err(|_| status::INVALID_IMAGE)?.insert(module, entries);
    Ok(module)
}

fn find(module: u64, name: *const c_char) -> Outcome<Entry> {
    let name = text(name)?;
    let modules = MODULES.lock().map_err(|_| status::INVALID_HANDLE)?;
    match modules.get(&module).ok_or(status::INVALID_HANDLE)? {
        Some(entries) => entries.iter().find(|entry| entry.name == name).cloned().ok_or(status::NOT_FOUND),
        None => Ok(Entry { name: name.to_owned(), parameters: Vec::new() }),
    }
}
