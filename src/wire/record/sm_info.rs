//! SMInfoRecord: IBA vol. 1, 15.2.5.10.

use super::components;
use crate::ids::Lid;
use crate::wire::attr::SmInfo;
use crate::wire::bits::record;

record! {
    /// SMInfoRecord, IBA vol. 1, 15.2.5.10.
    pub struct SmInfoRecord[32] {
        /// LID of the port the SM runs at.
        lid, set_lid: Lid = 0, 16;
    }
}

components!(SmInfoRecord, reserved [1] {
    LID = 0: 0, 16;
    GUID = 2: 32, 64;
    SM_KEY = 3: 96, 64;
    ACT_COUNT = 4: 160, 32;
    PRIORITY = 5: 192, 4;
    STATE = 6: 196, 4;
});

impl SmInfoRecord {
    pub fn sm_info(&self) -> SmInfo {
        SmInfo::read(&self.0[4..])
    }

    pub fn set_sm_info(&mut self, info: &SmInfo) {
        info.write(&mut self.0[4..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;
    use crate::wire::attr::SmState;

    #[test]
    fn layout() {
        let mut info = SmInfo::default();
        info.set_guid(Guid(1));
        info.set_priority(15);
        info.set_state(SmState::Master);
        let mut record = SmInfoRecord::default();
        record.set_lid(Lid(7));
        record.set_sm_info(&info);
        assert_eq!(&record.0[..12], &[0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(record.0[24], 0xF3);
        assert_eq!(record.sm_info(), info);
    }
}
