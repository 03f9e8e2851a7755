//! `leeway` against a real Docker Engine: a private daemon, which the first test starts (scripts/docker-for-tests)
//! and which stops when the tests end. `LEEWAY_TEST_DOCKER_HOST` names another one to use.

mod daemon;
mod inspect;

mod compose;
mod contexts;
mod deadline;
mod generated;
mod labels;
mod missing;
mod pass_through;
mod plugin;
mod podman;
mod ps;
mod terminal;
