//! Permissions of clients by the credentials of their process (SO_PEERCRED, unix(7)).

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;
use std::fmt;

/// The permissions of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// User ID of a client of the Unix socket; `None` for one of the TCP address.
    pub uid: Option<u32>,
    pub may_read: bool,
    pub may_act: bool,
}

impl Access {
    /// The client, for messages.
    pub fn client(&self) -> String {
        self.uid
            .map_or_else(|| "a client of management_tcp".to_owned(), |uid| format!("user {uid}"))
    }
}

/// The client of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClientOrigin {
    /// A process of this host, with its permissions.
    Local(Access),
    /// A client of the TCP address, whose requests have their permissions each.
    Network,
}

impl fmt::Display for ClientOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(access) => f.write_str(&access.client()),
            Self::Network => f.write_str("a client of management_tcp"),
        }
    }
}

/// The permissions of all users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// User of the daemon, who may do everything, as root may.
    pub owner: Uid,
    /// Group whose members may do everything (`management_group`).
    pub group: Option<Gid>,
    /// All others may read (`management_read_all`).
    pub read_all: bool,
}

impl Policy {
    /// The permissions of a process. `is_member` tells whether its user is a member of a group; it
    /// is called only if that matters.
    pub fn access(&self, uid: Uid, gid: Gid, is_member: impl FnOnce(Uid, Gid) -> bool) -> Access {
        let is_operator = uid.is_root()
            || uid == self.owner
            || self.group.is_some_and(|group| gid == group || is_member(uid, group));
        let may_read = is_operator || self.read_all;
        Access { uid: Some(uid.as_raw()), may_read, may_act: is_operator }
    }
}

/// True if the group database lists a user as a member of a group. May wait for a name service.
pub fn is_member(uid: Uid, group: Gid) -> bool {
    let Ok(Some(user)) = User::from_uid(uid) else { return false };
    let Ok(name) = CString::new(user.name) else { return false };
    getgrouplist(&name, user.gid).is_ok_and(|groups| groups.contains(&group))
}

/// The group with this name or number.
///
/// # Errors
/// There is none.
pub fn group(name: &str) -> Result<Gid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) => Err(format!("management_group: there is no group '{name}'")),
        Err(error) => Err(format!("management_group: group '{name}': {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Permissions (read, act) of root, the daemon's user, a member of the group by its process or
    /// by the database, and another user.
    fn table(group: Option<Gid>, read_all: bool) -> [(bool, bool); 5] {
        let policy = Policy { owner: Uid::from_raw(500), group, read_all };
        let users = [(0, 0), (500, 9), (501, 100), (502, 9), (503, 9)];
        users.map(|(uid, gid)| {
            let access = policy.access(Uid::from_raw(uid), Gid::from_raw(gid), |uid, gid| {
                uid.as_raw() == 502 && gid.as_raw() == 100
            });
            assert_eq!(access.uid, Some(uid));
            (access.may_read, access.may_act)
        })
    }

    #[test]
    fn permissions_follow_user_group_and_option() {
        let all = (true, true);
        let read = (true, false);
        let none = (false, false);
        let group = Some(Gid::from_raw(100));
        assert_eq!(table(None, false), [all, all, none, none, none]);
        assert_eq!(table(group, false), [all, all, all, all, none]);
        assert_eq!(table(None, true), [all, all, read, read, read]);
        assert_eq!(table(group, true), [all, all, all, all, read]);
    }

    #[test]
    fn groups_have_names_or_numbers() {
        assert_eq!(group("0"), Ok(Gid::from_raw(0)));
        assert_eq!(group("root"), Ok(Gid::from_raw(0)));
        let problem = group("no-such-group").expect_err("there is none");
        assert!(problem.contains("no group 'no-such-group'"), "{problem}");
        assert!(is_member(Uid::from_raw(0), Gid::from_raw(0)));
        assert!(!is_member(Uid::from_raw(0xFFFF_FFF0), Gid::from_raw(0)));
    }
}
