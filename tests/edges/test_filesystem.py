"""What a folder is on, told from the kernel's table of mounts."""

from pathlib import Path

import pytest

from proxy.edges.filesystem import FORGETS, kind_of

MOUNTS = r"""
22 1 0:20 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/l
30 22 0:25 / /tmp rw,nosuid - tmpfs tmpfs rw
31 22 8:1 /vol /data rw - ext4 /dev/sda1 rw
32 31 0:26 / /data/scratch rw - tmpfs tmpfs rw
33 22 0:27 / /hidden rw - tmpfs tmpfs rw
34 22 8:2 / /hidden rw master:1 propagate_from:2 - xfs /dev/sdb rw
35 22 8:3 / /with\040space rw - ext4 /dev/sdc rw
36 22 0:28 / /rootless rw - fuse.fuse-overlayfs x rw
""".lstrip()


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/app/.doubtless", "overlay"),
        ("/tmp/x/y", "tmpfs"),
        ("/tmpx", "overlay"),
        ("/data", "ext4"),
        ("/data/deep/er", "ext4"),
        ("/data/scratch/state", "tmpfs"),
        ("/data/../tmp", "tmpfs"),
        ("/hidden/state", "xfs"),
        ("/with space/state", "ext4"),
        ("/rootless/state", "fuse.fuse-overlayfs"),
    ],
)
def test_a_folder_is_on_the_deepest_mount_above_it(folder: str, kind: str, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)

    assert kind_of(Path(folder), mounts) == kind


def test_a_link_is_followed_to_where_it_leads(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 d rw\n2 1 0:2 / {tmp_path}/ram rw - tmpfs t rw\n")
    (tmp_path / "ram").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ram")

    assert kind_of(tmp_path / "link" / "state", mounts) == "tmpfs"


def test_where_there_is_no_table_nothing_is_said(tmp_path: Path) -> None:
    assert kind_of(tmp_path, tmp_path / "absent") == ""
    assert "" not in FORGETS
