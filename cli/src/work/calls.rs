//! The CUDA driver's library, found when the program runs: this program is built where no driver is.
#![allow(unsafe_code, reason = "the driver is a C library")]

use crate::failure::Failure;
use anyhow::{Context, Result};
use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr::null;

const LIBRARY: &str = "libcuda.so.1";

macro_rules! calls {
    ($($method:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        /// The driver's calls that we use, by their real names.
        struct Symbols {
            $($method: unsafe extern "C" fn($($type),*) -> u32,)*
            cu_error_name: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
        }

        impl Symbols {
            fn load(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those that `cuda.h` declares for these names since CUDA 4.
                unsafe {
                    let cu_error_name = *library.get("cuGetErrorName")?;
                    Ok(Self { $($method: *library.get($symbol)?,)* cu_error_name })
                }
            }
        }

        impl Calls {
            $(
                #[allow(clippy::too_many_arguments, reason = "as many as the driver's call has")]
                fn $method(&self, $($argument: $type),*) -> Result<()> {
                    // SAFETY: every caller below gives pointers to live memory of the size that the call documents.
                    let status = unsafe { (self.symbols.$method)($($argument),*) };
                    self.check($symbol, status)
                }
            )*
        }
    };
}

calls! {
    cu_init = "cuInit" (flags: u32);
    cu_device_get = "cuDeviceGet" (device: *mut i32, ordinal: i32);
    cu_device_get_name = "cuDeviceGetName" (name: *mut c_char, room: i32, device: i32);
    cu_device_get_attribute = "cuDeviceGetAttribute" (value: *mut i32, attribute: i32, device: i32);
    cu_ctx_create = "cuCtxCreate_v2" (context: *mut u64, flags: u32, device: i32);
    cu_ctx_destroy = "cuCtxDestroy_v2" (context: u64);
    cu_ctx_synchronize = "cuCtxSynchronize" ();
    cu_mem_alloc = "cuMemAlloc_v2" (address: *mut u64, bytes: usize);
    cu_mem_alloc_managed = "cuMemAllocManaged" (address: *mut u64, bytes: usize, flags: u32);
    cu_mem_free = "cuMemFree_v2" (address: u64);
    cu_memcpy_in = "cuMemcpyHtoD_v2" (to: u64, from: *const c_void, bytes: usize);
    cu_memcpy_out = "cuMemcpyDtoH_v2" (to: *mut c_void, from: u64, bytes: usize);
    cu_module_load = "cuModuleLoadData" (module: *mut u64, image: *const c_char);
    cu_module_function = "cuModuleGetFunction" (function: *mut u64, module: u64, name: *const c_char);
    cu_launch = "cuLaunchKernel" (
        function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared_bytes: u32, stream: u64, parameters: *const *const c_void, extra: *const *const c_void
    );
}

/// The driver.
pub(super) struct Calls {
    symbols: Symbols,
}

impl Calls {
    /// Loads the driver: the one in a folder, or the one that the loader finds.
    pub(super) fn load(folder: Option<&Path>) -> Result<Self> {
        let path = folder.map_or_else(|| LIBRARY.into(), |folder| folder.join(LIBRARY));
        let failed = |error: libloading::Error| {
            // The loader's own words are the cause; the error itself only names the call.
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Failure::new(format!("could not load the CUDA driver {}: {cause}", path.display())).help(
                "on a machine without a GPU, start `leeway gpu simulate --dir DIR` and give --driver DIR here",
            )
        };
        // SAFETY: loading runs the library's initialisers, as every CUDA program has them run.
        let library = unsafe { Library::new(&path) }.map_err(failed)?;
        let symbols = Symbols::load(&library).map_err(failed)?;
        // The driver is never unloaded: its threads may still run.
        std::mem::forget(library);
        Ok(Self { symbols })
    }

    pub(super) fn initialise(&self) -> Result<()> {
        self.cu_init(0)
    }

    pub(super) fn device(&self, ordinal: u32) -> Result<i32> {
        let mut device = 0;
        self.cu_device_get(&raw mut device, ordinal as i32)?;
        Ok(device)
    }

    pub(super) fn name(&self, device: i32) -> Result<String> {
        let mut name = [0_u8; 128];
        self.cu_device_get_name(name.as_mut_ptr().cast(), name.len() as i32 - 1, device)?;
        Ok(CStr::from_bytes_until_nul(&name).context("a name has no end")?.to_string_lossy().into_owned())
    }

    pub(super) fn attribute(&self, attribute: i32, device: i32) -> Result<i32> {
        let mut value = 0;
        self.cu_device_get_attribute(&raw mut value, attribute, device)?;
        Ok(value)
    }

    pub(super) fn create_context(&self, device: i32) -> Result<u64> {
        let mut context = 0;
        self.cu_ctx_create(&raw mut context, 0, device)?;
        Ok(context)
    }

    pub(super) fn destroy_context(&self, context: u64) -> Result<()> {
        self.cu_ctx_destroy(context)
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        self.cu_ctx_synchronize()
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<u64> {
        let mut address = 0;
        self.cu_mem_alloc(&raw mut address, bytes)?;
        Ok(address)
    }

    /// Memory that host and device share, and that everybody may attach to.
    pub(super) fn allocate_managed(&self, bytes: usize) -> Result<u64> {
        const GLOBAL: u32 = 1;
        let mut address = 0;
        self.cu_mem_alloc_managed(&raw mut address, bytes, GLOBAL)?;
        Ok(address)
    }

    pub(super) fn free(&self, address: u64) -> Result<()> {
        self.cu_mem_free(address)
    }

    pub(super) fn copy_in(&self, to: u64, from: &[f32]) -> Result<()> {
        self.cu_memcpy_in(to, from.as_ptr().cast(), size_of_val(from))
    }

    pub(super) fn copy_out(&self, to: &mut [f32], from: u64) -> Result<()> {
        self.cu_memcpy_out(to.as_mut_ptr().cast(), from, size_of_val(to))
    }

    /// A kernel of a module in PTX.
    pub(super) fn function(&self, ptx: &CStr, name: &CStr) -> Result<u64> {
        let (mut module, mut function) = (0, 0);
        self.cu_module_load(&raw mut module, ptx.as_ptr())?;
        self.cu_module_function(&raw mut function, module, name.as_ptr())?;
        Ok(function)
    }

    /// Launches a kernel in the default stream. Each parameter is the address of a live value of its type.
    pub(super) fn launch(
        &self,
        function: u64,
        grid: [u32; 2],
        block: [u32; 2],
        parameters: &[*const c_void],
    ) -> Result<()> {
        let ([gx, gy], [bx, by]) = (grid, block);
        self.cu_launch(function, gx, gy, 1, bx, by, 1, 0, 0, parameters.as_ptr(), null())
    }

    fn check(&self, call: &str, status: u32) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        let mut text: *const c_char = null();
        // SAFETY: the call stores the address of a constant text, or leaves the null that is there.
        let named = unsafe { (self.symbols.cu_error_name)(status, &raw mut text) } == 0 && !text.is_null();
        let name = if named {
            // SAFETY: a text of the driver's own, which ends with a zero byte and lasts as long as the driver.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        } else {
            "unknown error".to_owned()
        };
        Err(Failure::new(format!("{call} failed: {name} ({status})")).into())
    }
}
