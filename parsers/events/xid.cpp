// NVIDIA driver and NVSwitch error reports.
// Sources: NVIDIA/open-gpu-kernel-modules (NVRM: Xid), nvidia-nvswitch SXid lines; fabric manager log.
#include "parsers/base/text.hpp"
#include "parsers/events/message_parsers.hpp"
#include "parsers/events/scan.hpp"

#include <string>

namespace triage::parsers {

namespace {

constexpr std::int64_t kLargestCode = 99'999;  // SXid numbers have five digits

// "PCI:0000:9b:00.0" to "0000:9b:00"; empty if it is no PCI address.
std::string pci_address(std::string_view text) {
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  for (const char c : text)
    if (!is_alnum(c) && c != ':' && c != '.') return {};
  if (text.size() > 16 || !contains(text, ":")) return {};
  return std::string(text.substr(0, text.find('.')));
}

// ", pid=123, name=python3, text": pid may be '<unknown>' or missing.
void read_fields(Scan& scan, Xid& xid) {
  scan.word(",");
  scan.blanks();
  if (scan.word("pid=")) {
    scan.word("'");
    if (const auto pid = scan.integer(); pid && *pid > 0) xid.pid = pid;
    scan.until(",");
    scan.word(",");
    scan.blanks();
  }
  if (scan.word("name=")) {
    const auto name = scan.until(",");
    if (!contains(name, "<unknown>")) xid.process = std::string(trim(name));
    scan.word(",");
  }
  xid.text = std::string(trim(scan.rest()));
}

bool read_code(Scan& scan, Xid& xid) {
  const auto code = scan.integer();
  if (!code || *code < 0 || *code > kLargestCode || is_word(scan.peek())) return false;
  xid.code = static_cast<int>(*code);
  return true;
}

}  // namespace

Event read_xid(std::string_view message) {
  Xid xid;
  // "NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=x, text"; older "NVRM: Xid (0000:1a:00.0): 31, ..."; "SXid (PCI:0000:86:00.0): 12028, text".
  for (const std::string_view mark : {"SXid (", "Xid ("}) {
    Scan scan(message);
    if (!scan.after(mark)) continue;
    xid.nvswitch = mark == "SXid (";
    xid.pci = pci_address(scan.until(")"));
    if (xid.pci.empty() || !scan.word("):") || !read_code(scan, xid)) return {};
    read_fields(scan, xid);
    return xid;
  }
  // "Xid 31 PCI:0000:f0:00 pid=477448 ..." (summaries of monitoring tools)
  Scan scan(message);
  if (scan.after("Xid ") && read_code(scan, xid)) {
    scan.until("P");
    if (!scan.rest().starts_with("PCI:")) return {};
    xid.pci = pci_address(scan.until(" ,"));
    if (xid.pci.empty()) return {};
    scan.blanks();
    read_fields(scan, xid);
    return xid;
  }
  // Fabric manager: "detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 2 port 54"
  Scan fabric(message);
  if (fabric.after("detected NVSwitch ") && fabric.after("fatal error ") && read_code(fabric, xid)) {
    xid.nvswitch = true;
    Scan pci(message);
    if (pci.after("pci bus id ")) xid.pci = pci_address(pci.until(" ,"));
    xid.text = std::string(trim(message));
    return xid;
  }
  return {};
}

}  // namespace triage::parsers
