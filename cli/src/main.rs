//! The one binary, `leeway`. Everything it does lives in the library beside it.

fn main() -> std::process::ExitCode {
    cli::run(std::env::args_os())
}
