//! Agents that answer at another address (IBA vol. 1, 13.4.8.1): ClassPortInfo names it.

use crate::ids::{Guid, Lid, Pkey, PortNum};
use crate::wire::record::ClassPortInfo;

/// Q_Key of QP 1 (IBA vol. 1, 10.2.4), the only one that is followed.
const GSI_QKEY: u32 = 0x8001_0000;

/// The address of a redirected agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Redirection {
    pub lid: Lid,
    pub qpn: u32,
    pub pkey: Pkey,
    /// Index of the P_Key in the table of the SM's port.
    pub pkey_index: u16,
}

/// A redirected port, for lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedirectedPort {
    /// Node GUID.
    pub node: Guid,
    pub port: PortNum,
    /// LID of the port itself.
    pub from: Lid,
    pub to: Redirection,
}

/// Reads a redirection. `pkey_index` finds a P_Key in the table of the SM's port.
///
/// # Errors
/// The reason why it cannot be followed, in OpenSM's words.
pub fn read(
    info: &ClassPortInfo,
    pkey_index: impl FnOnce(Pkey) -> Option<u16>,
) -> Result<Redirection, String> {
    if info.redirect_lid().0 == 0 {
        return Err("GID redirection not currently supported".to_owned());
    }
    if info.redirect_qp() == 0 {
        return Err("Invalid RedirectQP".to_owned());
    }
    let pkey = info.redirect_pkey();
    if pkey.0 == 0 {
        return Err("Invalid RedirectP_Key".to_owned());
    }
    if info.redirect_qkey() != GSI_QKEY {
        return Err("Invalid RedirectQ_Key".to_owned());
    }
    let Some(pkey_index) = pkey_index(pkey) else {
        return Err(format!("Index for Pkey 0x{:x} not found", pkey.0));
    };
    Ok(Redirection { lid: info.redirect_lid(), qpn: info.redirect_qp(), pkey, pkey_index })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_redirections_are_followed() {
        let mut info = ClassPortInfo::default();
        let mut problem = |change: fn(&mut ClassPortInfo), index| {
            change(&mut info);
            read(&info, |_| index).expect_err("the redirection is incomplete")
        };
        assert!(problem(|_| (), Some(0)).starts_with("GID redirection"));
        assert_eq!(problem(|info| info.set_redirect_lid(Lid(9)), Some(0)), "Invalid RedirectQP");
        assert_eq!(problem(|info| info.set_redirect_qp(5), Some(0)), "Invalid RedirectP_Key");
        assert_eq!(problem(with_pkey, Some(0)), "Invalid RedirectQ_Key");
        assert_eq!(problem(with_qkey, None), "Index for Pkey 0xffff not found");
        let redirection = read(&info, |_| Some(3)).expect("complete");
        assert_eq!((redirection.lid, redirection.qpn, redirection.pkey_index), (Lid(9), 5, 3));
    }

    fn with_qkey(info: &mut ClassPortInfo) {
        info.set_redirect_qkey(GSI_QKEY);
    }

    fn with_pkey(info: &mut ClassPortInfo) {
        info.set_redirect_pkey(Pkey(0xFFFF));
    }
}
