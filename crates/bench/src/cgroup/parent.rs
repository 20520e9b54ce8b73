//! Finds the control group in which a new one can be made.
//!
//! Version 1 allows a new group below every group. Version 2 allows limits for the children of a
//! group on two conditions: the group lists the controllers in `cgroup.subtree_control`, and it is
//! the root or has no processes of its own. Called by `cgroup`.

use std::fs;
use std::path::{Path, PathBuf};

use super::places::{Hierarchy, HierarchyVersion, control_file};
use crate::error::{Error, Result};

/// Name of the group that this process moves to if its own group must become a parent.
const ENGINE_GROUP: &str = "firstbyte-engine";
/// Controllers used only for counting. They are enabled if possible; their absence is not an error.
const COUNTING_CONTROLLERS: [&str; 3] = ["memory", "cpu", "io"];

/// Returns a group whose children can have the limits of `needed`: this process's own group, or the
/// nearest above.
pub(super) fn find(hierarchy: &Hierarchy, needed: &[&str]) -> Result<PathBuf> {
    if hierarchy.version == HierarchyVersion::One {
        return Ok(hierarchy.own.clone());
    }
    let mut above = Vec::new();
    for group in hierarchy.own.ancestors().take_while(|group| group.starts_with(&hierarchy.root)) {
        match enable_controllers(group, needed) {
            Ok(()) => return Ok(group.to_owned()),
            Err(reason) => above.push(format!("{}: {reason}", group.display())),
        }
    }
    move_to_child(hierarchy, needed, &above.join("; "))
}

/// Makes the controllers available to the children of `group`.
fn enable_controllers(group: &Path, needed: &[&str]) -> std::result::Result<(), String> {
    let offered = control_file(group, "cgroup.subtree_control");
    let available = control_file(group, "cgroup.controllers");
    for name in needed.iter().filter(|name| !offered.contains(name)) {
        if !available.contains(name) {
            return Err(format!("it has no controller {name}"));
        }
        enable(group, name).map_err(|error| format!("cgroup.subtree_control: {error}"))?;
    }
    for name in COUNTING_CONTROLLERS.iter().filter(|name| !offered.contains(name) && available.contains(name))
    {
        let _ = enable(group, name);
    }
    Ok(())
}

fn enable(group: &Path, controller: &str) -> std::io::Result<()> {
    fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"))
}

/// Moves this process to a child of its group, so that the group can have other children. Error if
/// the group has other processes. The process stays in the child; later groups are made beside that
/// child.
fn move_to_child(hierarchy: &Hierarchy, needed: &[&str], above: &str) -> Result<PathBuf> {
    let text = fs::read_to_string(hierarchy.own.join("cgroup.procs")).unwrap_or_default();
    let own = std::process::id();
    if text.lines().any(|line| line.trim() != own.to_string()) {
        let processes = text.lines().count();
        return Err(crowded_error(&hierarchy.own, processes, above));
    }
    let aside = hierarchy.own.join(ENGINE_GROUP);
    let refused = |source| forbidden("move this process to a group in", &hierarchy.own, source);
    match fs::create_dir(&aside) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(refused(error)),
        _ => fs::write(aside.join("cgroup.procs"), own.to_string()).map_err(refused)?,
    }
    match enable_controllers(&hierarchy.own, needed) {
        Ok(()) => Ok(hierarchy.own.clone()),
        Err(reason) => Err(crowded_error(&hierarchy.own, 0, &format!("{above}; after moving: {reason}"))),
    }
}

/// Returns the error for a group with processes, whose children cannot have limits in version 2.
/// `above` lists the groups above that were tried, with their errors.
fn crowded_error(group: &Path, processes: usize, above: &str) -> Error {
    Error::Limits(format!(
        "{}: this group holds {processes} processes, and no group above it can be used ({above}), so version 2 allows \
         no limited group below it; run inside `systemd-run --scope -p Delegate=yes`",
        group.display()
    ))
}

/// Returns the error for a forbidden `action` at `path`. An action is text such as `make a group
/// in`.
pub(super) fn forbidden(action: &str, path: &Path, error: std::io::Error) -> Error {
    Error::Limits(format!(
        "cannot {action} {}: {error}; run as root, or inside `systemd-run --user --scope -p Delegate=yes`, or without \
         --memory-limit, --cpus and --function",
        path.display()
    ))
}
