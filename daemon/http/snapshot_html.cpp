#include "daemon/http/snapshot_html.hpp"

#include <algorithm>
#include <string_view>

#include "daemon/http/json_view.hpp"

namespace triage::daemon {

using namespace signatures;

namespace {

constexpr std::size_t kStacks = 4000, kFrames = 80, kSegments = 3000, kBlocks = 60'000;

constexpr std::string_view kPage = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Memory snapshot</title>
<style>
:root{--bg:#fff;--fg:#1c2128;--dim:#6a737d;--line:#d8dee4;--box:#f6f8fa;--accent:#0b62d6}
@media(prefers-color-scheme:dark){:root{--bg:#16191d;--fg:#e6e8ea;--dim:#9aa3ad;--line:#333a42;--box:#1e2329;--accent:#6cb0ff}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:14px/1.45 system-ui,sans-serif}
main{max-width:1400px;margin:0 auto;padding:20px 24px 60px}h1{font-size:18px;margin:0 0 2px;overflow-wrap:anywhere}h2{font-size:15px;margin:26px 0 6px}
.dim{color:var(--dim)}nav{margin:12px 0;display:flex;gap:6px;flex-wrap:wrap}button{font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);border-radius:6px;padding:4px 10px;cursor:pointer}
button[aria-pressed=true]{border-color:var(--accent);color:var(--accent)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:8px}.facts div{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:8px 10px}
.facts b{display:block;font-size:16px;font-variant-numeric:tabular-nums}.bar{display:flex;height:26px;border-radius:5px;overflow:hidden;margin:8px 0}
.bar i{display:block}.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-variant-numeric:tabular-nums}.legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}
canvas{width:100%;display:block;border:1px solid var(--line);border-radius:6px;background:var(--box);touch-action:none}
#tip{position:fixed;pointer-events:none;max-width:640px;background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:6px 9px;box-shadow:0 3px 14px #0003;font-size:12.5px;white-space:pre-wrap;overflow-wrap:anywhere;display:none;z-index:9}
</style></head><body><main>
<h1 id="file"></h1><div class="dim" id="sub"></div><nav id="devices"></nav><div class="facts" id="facts"></div>
<h2 id="what"></h2><div class="bar" id="bar"></div><div class="legend" id="legend"></div>
<h2>Memory over time</h2><div class="dim">wheel: zoom, drag: move, double click: all</div><canvas id="time" style="height:280px"></canvas>
<h2>By call stack</h2><div class="dim">click: zoom into a frame, click the base: back; width is bytes</div><canvas id="flame"></canvas>
<h2>Segments</h2><div class="dim">each row is a segment, largest first; grey is free</div><canvas id="map"></canvas>
</main><div id="tip"></div>
<script type="application/json" id="data">@DATA@</script>
<script>
'use strict';
const D=JSON.parse(document.getElementById('data').textContent),$=id=>document.getElementById(id),tip=$('tip');
const COLOURS={weights:'#3b76d6',gradients:'#8a5cd0',optimizer:'#d0742a',activations:'#2e9d62',logits:'#cf4a5b',buffers:'#c9a227',cuda_graphs:'#2a9fb0',temporary:'#8a94a0',unattributed:'#5b646e'};
const css=n=>getComputedStyle(document.documentElement).getPropertyValue(n).trim();
function size(b){const s=b<0?'-':'';b=Math.abs(b);const u=['B','KiB','MiB','GiB','TiB'];let i=0;while(b>=1024&&i<4){b/=1024;i++}return s+b.toFixed(i?2:0)+' '+u[i]}
function show(e,text){if(!text){tip.style.display='none';return}tip.textContent=text;tip.style.display='block';
 const x=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8),y=Math.min(e.clientY+14,innerHeight-tip.offsetHeight-8);tip.style.left=Math.max(4,x)+'px';tip.style.top=Math.max(4,y)+'px'}
function setup(c,h){if(h)c.style.height=h+'px';const r=devicePixelRatio||1,w=c.clientWidth;c.width=w*r;c.height=(h||c.clientHeight)*r;const g=c.getContext('2d');g.setTransform(r,0,0,r,0,0);g.font='12px system-ui,sans-serif';return[g,w,h||c.clientHeight]}
let dev=null,view=null,root=null,zoomed=null,boxes=[],rows=[];
function stackText(i){const s=dev.stacks[i];return s?s.f.slice().reverse().map(k=>D.frames[k]).slice(0,24).join('\n')||'(no Python frames)':''}
function drawTime(){const c=$('time'),[g,w,h]=setup(c),t=dev.timeline;g.clearRect(0,0,w,h);g.fillStyle=css('--dim');
 if(!t.length){g.fillText('The file has no events: memory over time is not known.',16,30);return}
 if(!view)view=[0,t.length-1];const L=78,B=24,[a,b]=view;let top=1;for(let i=Math.floor(a);i<=Math.ceil(b)&&i<t.length;i++)top=Math.max(top,t[i][2],t[i][3]);top*=1.06;
 const X=i=>L+(i-a)/Math.max(b-a,1e-9)*(w-L-10),Y=v=>h-B-v/top*(h-B-12);
 g.strokeStyle=css('--line');g.textAlign='right';for(let k=0;k<=4;k++){const v=top*k/4,y=Y(v);g.beginPath();g.moveTo(L,y);g.lineTo(w-10,y);g.stroke();g.fillText(size(v),L-8,y+4)}
 const i0=Math.max(0,Math.floor(a)),i1=Math.min(t.length-1,Math.ceil(b));g.save();g.beginPath();g.rect(L,0,w-L-10,h-B);g.clip();
 g.strokeStyle='#cf4a5b';g.lineWidth=1.5;g.beginPath();for(let i=i0;i<=i1;i++){const y=Y(t[i][3]);i==i0?g.moveTo(X(i),y):(g.lineTo(X(i),Y(t[i-1][3])),g.lineTo(X(i),y))}g.stroke();
 g.fillStyle='#2e9d6255';g.strokeStyle='#2e9d62';g.beginPath();g.moveTo(X(i0),Y(0));for(let i=i0;i<=i1;i++)g.lineTo(X(i),Y(t[i][2]));g.lineTo(X(i1),Y(0));g.fill();
 g.beginPath();for(let i=i0;i<=i1;i++)i==i0?g.moveTo(X(i),Y(t[i][2])):g.lineTo(X(i),Y(t[i][2]));g.stroke();g.restore();
 g.lineWidth=1;g.textAlign='left';g.fillStyle='#cf4a5b';g.fillText('reserved',L+8,16);g.fillStyle='#2e9d62';g.fillText('allocated',L+72,16);
 g.fillStyle=css('--dim');const t0=t[0][0];for(let k=0;k<=4;k++){const i=Math.round(a+(b-a)*k/4);if(t[i]){g.textAlign=k==4?'right':k?'center':'left';g.fillText(t[i][0]?((t[i][0]-t0)/1e6).toFixed(3)+' s':'event '+i*dev.stretch,X(i),h-7)}}
 c._x=x=>a+(x-L)/(w-L-10)*(b-a)}
{const c=$('time');let drag=null;
 c.addEventListener('wheel',e=>{if(!dev.timeline.length)return;e.preventDefault();const n=dev.timeline.length-1,m=c._x(e.offsetX),k=e.deltaY>0?1.25:.8;let a=m-(m-view[0])*k,b=m+(view[1]-m)*k;if(b-a<8)return;view=[Math.max(0,a),Math.min(n,b)];drawTime()},{passive:false});
 c.addEventListener('pointerdown',e=>{drag=[e.offsetX,view&&view.slice()];c.setPointerCapture(e.pointerId)});c.addEventListener('pointerup',()=>drag=null);
 c.addEventListener('dblclick',()=>{view=null;drawTime()});c.addEventListener('pointerleave',e=>show(e));
 c.addEventListener('pointermove',e=>{const t=dev.timeline;if(!t.length)return;if(drag&&drag[1]){const n=t.length-1,d=(drag[0]-e.offsetX)/(c.clientWidth-88)*(drag[1][1]-drag[1][0]),s=Math.max(-drag[1][0],Math.min(n-drag[1][1],d));view=[drag[1][0]+s,drag[1][1]+s];drawTime();return}
  const p=t[Math.round(c._x(e.offsetX))];show(e,p&&`${p[0]?new Date(p[0]/1000).toISOString():''}\nallocated ${size(p[1])} to ${size(p[2])}\nreserved ${size(p[3])}`)})}
function buildFlame(){root={n:'all',b:0,k:new Map(),c:null};for(const s of dev.stacks){let node=root;root.b+=s.b;const path=[s.c,...s.f.map(k=>D.frames[k])];if(path.length==1)path.push('(no Python frames)');
  for(const name of path){let next=node.k.get(name);if(!next){next={n:name,b:0,k:new Map(),c:s.c,p:node};node.k.set(name,next)}next.b+=s.b;node=next}}zoomed=root}
function drawFlame(){const c=$('flame'),H=19;boxes=[];let depth=0;
 const lay=(node,x,w,d)=>{if(w<.6)return;boxes.push([x,d,w,node]);depth=Math.max(depth,d);let at=x;for(const k of [...node.k.values()].sort((a,b)=>b.b-a.b)){const kw=w*k.b/Math.max(node.b,1);lay(k,at,kw,d+1);at+=kw}};
 lay(zoomed,0,c.clientWidth,0);const[g,w]=setup(c,(depth+1)*H+2);
 for(const[x,d,bw,n]of boxes){g.fillStyle=n.c?COLOURS[n.c]||'#888':css('--dim');g.globalAlpha=n.c&&n.p!==root?.62+.3*((d*7)%5)/5:1;g.fillRect(x,d*H,Math.max(bw-.7,.5),H-1);g.globalAlpha=1;
  if(bw>46){g.save();g.beginPath();g.rect(x,d*H,bw-5,H);g.clip();g.fillStyle='#fff';g.fillText(n.n+'  '+size(n.b),x+4,d*H+13);g.restore()}}}
{const c=$('flame'),at=e=>boxes.find(b=>e.offsetX>=b[0]&&e.offsetX<b[0]+b[2]&&Math.floor(e.offsetY/19)==b[1]);
 c.addEventListener('pointermove',e=>{const b=at(e);c.style.cursor=b?'pointer':'';show(e,b&&`${b[3].n}\n${size(b[3].b)}, ${(100*b[3].b/Math.max(root.b,1)).toFixed(1)} % of all`)});
 c.addEventListener('pointerleave',e=>show(e));c.addEventListener('click',e=>{const b=at(e);if(b){zoomed=b[3]===zoomed?zoomed.p||root:b[3];drawFlame()}})}
function drawMap(){const c=$('map'),list=dev.segments,H=list.length>400?4:list.length>120?7:13,most=Math.max(1,...list.map(s=>s.b));rows=list;const[g,w]=setup(c,Math.max(30,list.length*H+4));
 list.forEach((s,i)=>{const W=Math.max(3,w*Math.sqrt(s.b/most)),y=2+i*H;g.fillStyle=css('--line');g.fillRect(0,y,W,H-1);let at=0;for(const[b,state,k]of s.k){if(state<2){g.fillStyle=state?'#8a94a0':COLOURS[k<0?'unattributed':dev.stacks[k].c];g.fillRect(at/s.b*W,y,Math.max(b/s.b*W-.4,.4),H-1)}at+=b}});
 c._row=e=>Math.floor((e.offsetY-2)/H);c._at=(e,s)=>{const W=Math.max(3,w*Math.sqrt(s.b/most));let p=e.offsetX/W*s.b;for(const k of s.k){if(p<k[0])return k;p-=k[0]}}}
{const c=$('map');c.addEventListener('pointerleave',e=>show(e));c.addEventListener('pointermove',e=>{const s=rows[c._row(e)];if(!s)return show(e);const k=c._at(e,s);
 show(e,`segment ${size(s.b)}, ${s.n}, ${size(s.a)} in use`+(k?`\nblock ${size(k[0])}, ${['allocated','waits for a stream','free'][k[1]]}\n${k[1]<2&&k[2]>=0?stackText(k[2]):''}`:''))})}
function select(i){dev=D.devices[i];view=null;[...$('devices').children].forEach((b,k)=>b.setAttribute('aria-pressed',k==i));
 $('facts').replaceChildren(...dev.facts.map(([k,v])=>{const d=document.createElement('div'),b=document.createElement('b');b.textContent=typeof v=='number'?size(v):v;d.append(b,k);return d}));
 $('what').textContent=dev.moment;$('bar').replaceChildren(...dev.categories.map(([n,b])=>{const e=document.createElement('i');e.style.cssText=`flex:${Math.max(b,1)};background:${COLOURS[n]}`;e.title=n+' '+size(b);return e}));
 const sum=dev.categories.reduce((s,c)=>s+c[1],0)||1;$('legend').replaceChildren(...dev.categories.map(([n,b,guess])=>{const e=document.createElement('span'),k=document.createElement('i');k.style.background=COLOURS[n];e.append(k,`${n} ${size(b)} (${(100*b/sum).toFixed(1)} %)`+(guess>b/2?' likely':''));return e}));
 buildFlame();drawTime();drawFlame();drawMap()}
$('file').textContent=D.file;$('sub').textContent=D.note;D.devices.forEach((d,i)=>{const b=document.createElement('button');b.textContent='GPU '+d.device;b.onclick=()=>select(i);$('devices').append(b)});
if(D.devices.length){select(0);addEventListener('resize',()=>{drawTime();drawFlame();drawMap()})}
</script></body></html>
)page";

std::string frame_text(const parsers::StackTable& stacks, parsers::FrameId frame) {
  std::string_view file = stacks.file_of(frame);
  // The last two parts of the path tell it from others of the same name.
  std::size_t slash = file.find_last_of('/');
  if (slash != std::string_view::npos && slash > 0) slash = file.find_last_of('/', slash - 1);
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(stacks.function_of(frame)) + "  " + std::string(file) + ":" + std::to_string(stacks.frame_of(frame).line);
}

Json device_json(const SnapshotAnalysis& analysis, const DeviceAnalysis& device, std::vector<std::int64_t>& frame_numbers, Json& frame_texts) {
  const parsers::DeviceSummary& s = device.summary;
  const parsers::AllocatorSnapshot& snapshot = analysis.snapshot;
  Json facts = Json::array();
  const auto fact = [&](const char* name, auto value) { facts.push_back({name, value}); };
  fact("allocated", s.now.allocated);
  fact("reserved", s.now.reserved);
  if (s.peak) fact("peak allocated", s.peak->allocated);
  fact("reserved, unallocated", s.fragmentation.unallocated);
  fact("largest free block", s.fragmentation.largest_free);
  if (s.oom) {
    fact("the failed request", s.oom->requested);
    fact("free on the device then", s.oom->device_free);
  }
  if (s.leak) fact("grows per step", s.leak->bytes_per_step);
  fact("events", std::to_string(s.events));
  Json categories = Json::array();
  for (const CategoryBytes& by : device.composition().categories) categories.push_back({category_name(by.category), by.bytes, by.guessed});
  Json timeline = Json::array();
  for (const parsers::TimelinePoint& point : s.timeline) timeline.push_back({point.time_us, point.allocated_low, point.allocated_high, point.reserved});

  Json stacks = Json::array();
  std::vector<std::int64_t> number_of(snapshot.stacks.stacks(), -1);
  const auto add_stack = [&](const StackBytes& by) {
    if (stacks.size() >= kStacks) return;
    Json frames = Json::array();
    const auto of = snapshot.stacks.frames_of(by.stack);
    for (auto frame = of.rbegin(); frame != of.rend() && frames.size() < kFrames; ++frame) {   // outermost first
      std::int64_t& number = frame_numbers[*frame];
      if (number < 0) {
        number = static_cast<std::int64_t>(frame_texts.size());
        frame_texts.push_back(frame_text(snapshot.stacks, *frame));
      }
      frames.push_back(number);
    }
    if (by.stack < number_of.size() && number_of[by.stack] < 0) number_of[by.stack] = static_cast<std::int64_t>(stacks.size());
    stacks.push_back({{"b", by.bytes}, {"c", category_name(by.category)}, {"f", std::move(frames)}});
  };
  for (const StackBytes& by : device.composition().stacks) add_stack(by);
  for (StackBytes by : device.now.stacks)
    if (by.stack < number_of.size() && number_of[by.stack] < 0) {   // lives now, not at that moment: in the map alone
      by.bytes = 0;
      add_stack(by);
    }

  std::vector<const parsers::SnapshotSegment*> order;
  for (const parsers::SnapshotSegment& segment : snapshot.segments)
    if (segment.device == s.device && segment.total_size > 0) order.push_back(&segment);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->total_size > b->total_size; });
  Json segments = Json::array();
  std::size_t blocks = 0;
  for (const parsers::SnapshotSegment* const segment : order) {
    if (segments.size() >= kSegments || blocks >= kBlocks) break;
    Json list = Json::array();
    for (const parsers::SnapshotBlock& block : snapshot.blocks_of(*segment)) {
      list.push_back({block.size, static_cast<int>(block.state), block.stack && block.stack < number_of.size() ? number_of[block.stack] : -1});
      ++blocks;
    }
    std::string name = segment->large ? "large pool" : "small pool";
    if (!segment->pool.is_default()) name += ", private";
    if (segment->expandable) name += ", expandable";
    segments.push_back({{"b", segment->total_size}, {"a", segment->active_size}, {"n", name}, {"k", std::move(list)}});
  }
  const std::string moment = s.oom ? "What filled it when the allocation failed" : s.peak ? "What filled it at the peak" : "What fills it";
  return {{"device", s.device}, {"facts", facts}, {"moment", moment}, {"categories", categories}, {"timeline", timeline},
          {"stretch", s.timeline.empty() ? 1 : std::max<std::size_t>(1, s.events / s.timeline.size())}, {"stacks", stacks}, {"segments", segments}};
}

}  // namespace

Json snapshot_graph_json(const SnapshotAnalysis& analysis) {
  Json frames = Json::array(), devices = Json::array();
  std::vector<std::int64_t> frame_numbers(analysis.snapshot.stacks.frames(), -1);
  for (const DeviceAnalysis& device : analysis.devices) devices.push_back(device_json(analysis, device, frame_numbers, frames));
  std::string note = "allocator snapshot of PyTorch";
  if (!analysis.snapshot.settings.configuration.empty()) note += ", PYTORCH_CUDA_ALLOC_CONF=" + analysis.snapshot.settings.configuration;
  if (analysis.snapshot.cut) note += ", cut: " + analysis.snapshot.cut->message();
  return {{"file", analysis.file}, {"note", note}, {"frames", std::move(frames)}, {"devices", std::move(devices)}};
}

std::string snapshot_html(const SnapshotAnalysis& analysis) {
  const std::string data = json_text(snapshot_graph_json(analysis), -1);
  std::string safe;   // no text of the file may end the script element
  safe.reserve(data.size());
  for (const char c : data) {
    if (c == '<') safe += "\\u003c";
    else safe += c;
  }
  const std::size_t at = kPage.find("@DATA@");
  std::string out(kPage.substr(0, at));
  out += safe;
  out += kPage.substr(at + 6);
  return out;
}

}  // namespace triage::daemon
