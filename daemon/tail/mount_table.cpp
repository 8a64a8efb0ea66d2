#include "daemon/tail/mount_table.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "parsers/base/text.hpp"

namespace triage::daemon {

namespace {

constexpr std::chrono::seconds kFresh(10);

// Blank, tab, line end and backslash stand as \040 and the like.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

// "36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda1 rw": after any number of optional fields stands "-", then the type.
MountTable MountTable::parse(std::string_view mountinfo) {
  MountTable out;
  for (const std::string_view line : parsers::split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view front = line.substr(0, dash), type = line.substr(dash + 3);
    for (int i = 0; i < 4; ++i) front.remove_prefix(std::min(front.size(), std::min(front.find(' '), front.size() - 1) + 1));
    const std::string_view point = front.substr(0, front.find(' '));
    if (point.starts_with('/')) out.mounts_.push_back({unescaped(point), std::string(type.substr(0, type.find(' ')))});
  }
  return out;
}

MountTable MountTable::current() {
  std::ifstream in("/proc/self/mountinfo", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return parse(text);
}

const Mount* MountTable::find(std::string_view path) const {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts_) {
    const std::string_view point = mount.point;
    const bool below = point == "/" || (path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/'));
    if (below && (!best || point.size() >= best->point.size())) best = &mount;
  }
  return best;
}

std::string NetworkMounts::find(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  if (const auto now = std::chrono::steady_clock::now(); !read_at_ || now - *read_at_ > kFresh) {
    table_ = MountTable::current();
    read_at_ = now;
  }
  const Mount* const mount = table_.find(folder);
  return mount && is_network_type(mount->type) ? mount->point : std::string();
}

bool is_network_type(std::string_view type) {
  constexpr std::string_view kNetwork[] = {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "ibrix", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2",
                                           "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs"};
  return type.starts_with("fuse") || std::find(std::begin(kNetwork), std::end(kNetwork), type) != std::end(kNetwork);
}

}  // namespace triage::daemon
