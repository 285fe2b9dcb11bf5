//! The power of a volume's devices: cut, opened again, checked.

use anyhow::{Context, Result};
use ext::Volume;

use super::super::{
    Checked, DeviceMaker, Instance, PowerSwitch, PoweredFileSystem, Remains, Reopened, Stores,
};
use super::{Devices, ExtSetup};

const SECTOR_BYTES: u64 = 512;

impl PoweredFileSystem for ExtSetup {
    fn make_powered(&self, allocation_start: u32) -> Result<(Box<dyn Instance>, PowerSwitch)> {
        let mut maker = DeviceMaker::with_stores(Stores::default());
        let devices = Devices::open(self, &mut maker)?;
        let instance = self.make_on(devices, allocation_start)?;
        Ok((instance, switch(&maker)))
    }

    fn reopen(&self, remains: Remains) -> Result<Reopened> {
        let mut maker = DeviceMaker::with_stores(Stores::of(remains));
        let devices = Devices::open(self, &mut maker)?;
        let (home, log) = devices.block_devices();
        let began = rt::monotonic();
        let opened = Volume::open_with_report(home, log, self.mount.clone());
        let (volume, report) = opened.context("mount after the power cut")?;
        let took = rt::monotonic().saturating_sub(began);
        Ok(Reopened {
            instance: Box::new(self.instance(volume, devices)),
            switch: switch(&maker),
            took,
            replayed: report.replayed_transactions.into(),
        })
    }

    fn check(&self, remains: Remains) -> Result<Checked> {
        let mut maker = DeviceMaker::with_stores(Stores::of(remains));
        let devices = Devices::open(self, &mut maker)?;
        let (home, log) = devices.block_devices();
        let began = rt::monotonic();
        let report = fsck::check(&*home, log.as_deref(), &fsck::Options::default());
        let report = report.context("check after the power cut")?;
        let took = rt::monotonic().saturating_sub(began);
        let counted = [Some(&devices.home), devices.log.as_ref()];
        let read = counted.into_iter().flatten();
        let read = read.map(|device| device.device.counts().read_sectors);
        Ok(Checked {
            took,
            files: report.statistics.regular_files.into(),
            bytes_read: read.sum::<u64>() * SECTOR_BYTES,
            problems: report.problems.len() as u64 + report.omitted,
        })
    }
}

fn switch(maker: &DeviceMaker) -> PowerSwitch {
    let switch = maker.switch();
    Box::new(move || {
        let switch = switch
            .as_ref()
            .context("the devices have no power switch")?;
        switch.cut()
    })
}
