// Several files as one tar archive, made of slices of the files themselves: nothing is read into memory. Long names use a pax header.

function header(name: string, size: number, type: string): Uint8Array {
  const block = new Uint8Array(512), text = new TextEncoder();
  const put = (at: number, value: string) => block.set(text.encode(value), at);
  block.set(text.encode(name).slice(0, 100), 0);
  put(100, '0000644\0');
  put(108, '0000000\0');
  put(116, '0000000\0');
  put(124, size.toString(8).padStart(11, '0') + '\0');
  put(136, '00000000000\0');
  put(148, '        ');
  put(156, type);
  put(257, 'ustar\x0000');
  put(148, block.reduce((s, b) => s + b, 0).toString(8).padStart(6, '0') + '\0 ');
  return block;
}

export function tarOf(files: {path: string; file: Blob}[]): Blob {
  const parts: BlobPart[] = [], text = new TextEncoder();
  const filler = (size: number) => new Uint8Array((512 - (size % 512)) % 512);
  for (const {path, file} of files) {
    if (text.encode(path).length > 100) {
      let length = path.length;
      for (let i = 0; i < 3; ++i) length = text.encode(`${length} path=${path}\n`).length;
      const record = text.encode(`${length} path=${path}\n`);
      parts.push(header('pax', record.length, 'x') as BlobPart, record as BlobPart, filler(record.length) as BlobPart);
    }
    parts.push(header(path, file.size, '0') as BlobPart, file, filler(file.size) as BlobPart);
  }
  parts.push(new Uint8Array(1024) as BlobPart);
  return new Blob(parts);
}
