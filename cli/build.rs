//! Lets the program find its libraries in a container that has none: see `src/gpu/program.rs`.

fn main() {
    // The folder exists only in containers that `leeway gpu options` made; elsewhere the loader passes it by.
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,/run/leeway-gpu/lib");
    println!("cargo:rerun-if-changed=build.rs");
}
