//! A tree like those that agents work in: mostly source text, some of it twice, some data that does not
//! compress, a few links. Always the same.

use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const FILES_IN_A_DIRECTORY: usize = 40;
/// The size of a file on average: 50,000 of them are a gigabyte.
const BYTES_OF_A_FILE: usize = 20_000;

const WORDS: &[&str] = &[
    "let",
    "match",
    "return",
    "self",
    "impl",
    "fn",
    "pub",
    "struct",
    "value",
    "result",
    "error",
    "path",
    "name",
    "index",
    "count",
    "buffer",
    "reader",
    "writer",
    "entry",
    "manifest",
    "digest",
    "option",
    "string",
    "vector",
    "if",
    "else",
    "while",
    "for",
    "in",
    "break",
    "true",
    "false",
    "None",
    "Some",
    "Ok",
    "Err",
    "async",
    "await",
    "import",
    "from",
    "class",
    "def",
    "const",
    "export",
    "default",
    "function",
    "interface",
    "type",
    "extends",
];
const MARKS: &[&str] =
    &["(", ")", " = ", ";\n    ", " {\n        ", "}\n", ", ", ".", "::", " -> ", "&", " // "];

/// Makes the tree and returns how many bytes its files have.
pub fn make(root: &Path, files: usize) -> u64 {
    let mut random = Random(42);
    let mut total = 0;
    for number in 0..files {
        let path = place(root, number);
        if number.is_multiple_of(FILES_IN_A_DIRECTORY) {
            fs::create_dir_all(path.parent().expect("it is in a directory"))
                .expect("a directory can be made");
        }
        if number % 500 == 499 {
            symlink("f0.rs", path.with_extension("link")).expect("a link can be made");
        }
        total += write_file(&path, number, &mut random);
    }
    total
}

/// Files of source text, spread over the tree.
pub fn some_files(root: &Path, count: usize) -> Vec<PathBuf> {
    let texts = (0..).step_by(40).map(|number| place(root, number + 1)).take_while(|path| path.exists());
    let all: Vec<PathBuf> = texts.collect();
    let apart = (all.len() / count).max(1);
    all.into_iter().step_by(apart).take(count).collect()
}

fn place(root: &Path, number: usize) -> PathBuf {
    let directory = number / FILES_IN_A_DIRECTORY;
    root.join(format!("part{}/module{directory}/f{}.rs", directory % 12, number % FILES_IN_A_DIRECTORY))
}

fn is_data(number: usize) -> bool {
    // The second file of each directory is always a text of its own.
    number % 20 == 9
}

fn write_file(path: &Path, number: usize, random: &mut Random) -> u64 {
    let mut file = BufWriter::new(fs::File::create(path).expect("a file can be made"));
    let mut random = if number % 80 == 7 { Random(7) } else { random.fork() };
    // Many are small and a few large, as in real trees.
    let size = BYTES_OF_A_FILE / 4 + random.below(BYTES_OF_A_FILE) * random.below(7) / 2;
    let mut written = 0;
    while written < size {
        if is_data(number) {
            let bytes = random.next().to_le_bytes();
            file.write_all(&bytes).expect("there is room");
            written += bytes.len();
            continue;
        }
        let word = WORDS[random.below(WORDS.len())];
        let mark = MARKS[random.below(MARKS.len())];
        // Names that occur in one file and nowhere else.
        let own = if random.below(4) == 0 {
            format!("_{}", random.below(40) * (number + 3))
        } else {
            String::new()
        };
        file.write_all(word.as_bytes()).expect("there is room");
        file.write_all(own.as_bytes()).expect("there is room");
        file.write_all(mark.as_bytes()).expect("there is room");
        written += word.len() + own.len() + mark.len();
    }
    file.flush().expect("there is room");
    written as u64
}

/// Numbers that look random and are always the same (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 11) % limit as u64) as usize
    }

    fn fork(&mut self) -> Random {
        Random(self.next() | 1)
    }
}
