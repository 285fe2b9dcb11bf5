//! The source of a crate as a tree of modules, each with the names that it declares and imports.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::{Attribute, Item, Meta, UseTree, Visibility};

/// Source files by their path below `src/`.
pub(crate) type Sources = BTreeMap<String, String>;

/// Index of a file in [`Crate::files`].
pub(crate) type FileId = usize;
/// Index of a module in [`Crate::modules`].
pub(crate) type ModuleId = usize;

/// The modules of one crate root, without those for tests only.
#[derive(Default)]
pub(crate) struct Crate {
    pub(crate) files: Vec<File>,
    /// All modules; the root is the first.
    pub(crate) modules: Vec<Module>,
}

/// A file and the path of its module.
pub(crate) struct File {
    /// Path below `src/`.
    pub(crate) name: String,
    /// Names of the modules from the root to this one; empty for the root.
    pub(crate) path: Vec<String>,
    pub(crate) text: String,
}

/// A module: a file, or inline in one.
pub(crate) struct Module {
    pub(crate) file: FileId,
    pub(crate) parent: Option<ModuleId>,
    pub(crate) names: BTreeMap<String, Vec<Definition>>,
    pub(crate) globs: Vec<Import>,
    pub(crate) items: Vec<Item>,
}

/// One meaning of a name in a module.
#[derive(Clone)]
pub(crate) enum Definition {
    /// A module declared here.
    Module(ModuleId),
    /// A function, constant, static or macro, which has no names below it.
    Value,
    /// Any other item defined here.
    Type,
    /// A leaf of a `use`.
    Import(Import),
}

/// One leaf of a `use`: a path, relative to the module that contains it.
#[derive(Clone)]
pub(crate) struct Import {
    /// The name of the item here; `None` for a glob.
    pub(crate) name: Option<String>,
    pub(crate) path: Vec<String>,
    pub(crate) is_private: bool,
    pub(crate) line: usize,
}

impl Crate {
    /// Parses the crate whose root is `root`, for example `lib.rs`.
    ///
    /// # Panics
    ///
    /// Panics if a file is missing or is not valid Rust.
    pub(crate) fn parse(root: &str, sources: &Sources) -> Self {
        let mut tree = Self::default();
        tree.add_file(root, Vec::new(), None, sources);
        tree
    }

    fn add_file(
        &mut self,
        name: &str,
        path: Vec<String>,
        parent: Option<ModuleId>,
        sources: &Sources,
    ) -> ModuleId {
        let text = sources
            .get(name)
            .unwrap_or_else(|| panic!("{name}: declared as a module, but there is no such file"));
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let file = self.files.len();
        self.files.push(File {
            name: name.to_owned(),
            path: path.clone(),
            text: text.clone(),
        });
        self.add_module(file, path, parent, parsed.items, sources)
    }

    fn add_module(
        &mut self,
        file: FileId,
        path: Vec<String>,
        parent: Option<ModuleId>,
        items: Vec<Item>,
        sources: &Sources,
    ) -> ModuleId {
        let id = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            names: BTreeMap::new(),
            globs: Vec::new(),
            items: Vec::new(),
        });
        let items: Vec<Item> = items
            .into_iter()
            .filter(|i| !is_test(attributes(i)))
            .collect();
        for item in &items {
            self.declare(id, item);
        }
        for item in items {
            let Item::Mod(module) = item else {
                self.modules[id].items.push(item);
                continue;
            };
            let name = plain(&module.ident);
            let mut below = path.clone();
            below.push(name.clone());
            let child = match module.content {
                Some((_, items)) => self.add_module(file, below, Some(id), items, sources),
                None => {
                    let file = format!("{}.rs", below.join("/"));
                    self.add_file(&file, below, Some(id), sources)
                }
            };
            self.define(id, name, Definition::Module(child));
        }
        id
    }

    fn define(&mut self, module: ModuleId, name: String, definition: Definition) {
        let names = &mut self.modules[module].names;
        names.entry(name).or_default().push(definition);
    }

    /// Records the names that an item declares in its module.
    fn declare(&mut self, module: ModuleId, item: &Item) {
        match item {
            Item::Use(item) => {
                for import in imports(item) {
                    match import.name.clone() {
                        Some(name) => self.define(module, name, Definition::Import(import)),
                        None => self.modules[module].globs.push(import),
                    }
                }
            }
            Item::Macro(item) => match &item.ident {
                Some(name) => {
                    let name = plain(name);
                    if item.attrs.iter().any(|a| a.path().is_ident("macro_export")) && module != 0 {
                        self.export(module, &name);
                    }
                    self.define(module, name, Definition::Value);
                }
                None => self.declare_generated(module, item.mac.tokens.clone()),
            },
            item => {
                if let Some((name, definition)) = defined_name(item) {
                    self.define(module, name, definition);
                }
            }
        }
    }

    /// Records an exported macro as a name of the root.
    fn export(&mut self, module: ModuleId, name: &str) {
        let file = self.modules[module].file;
        let mut path = vec!["crate".to_owned()];
        path.extend(self.files[file].path.iter().cloned());
        path.push(name.to_owned());
        let import = Import {
            name: Some(name.to_owned()),
            path,
            is_private: false,
            line: 0,
        };
        self.define(0, name.to_owned(), Definition::Import(import));
    }

    /// Records each type name in the body of a macro, which may define it: the expansion is not
    /// known here.
    fn declare_generated(&mut self, module: ModuleId, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.declare_generated(module, group.stream()),
                TokenTree::Ident(name) => {
                    let name = plain(&name);
                    let names = &mut self.modules[module].names;
                    if is_capital(&name) && !names.contains_key(&name) {
                        names.insert(name, vec![Definition::Type]);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the leaves of a `use`.
pub(crate) fn imports(item: &syn::ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    if item.leading_colon.is_none() {
        let is_private = matches!(item.vis, Visibility::Inherited);
        leaves(&item.tree, &mut Vec::new(), is_private, &mut found);
    }
    found
}

fn leaves(tree: &UseTree, path: &mut Vec<String>, is_private: bool, found: &mut Vec<Import>) {
    let mut leaf = |name: Option<String>, last: Option<String>| {
        let whole = path.iter().cloned().chain(last).collect();
        found.push(Import {
            name,
            path: whole,
            is_private,
            line: tree.span().start().line,
        });
    };
    match tree {
        UseTree::Name(name) if name.ident == "self" => leaf(path.last().cloned(), None),
        UseTree::Rename(name) if name.ident == "self" => leaf(Some(plain(&name.rename)), None),
        UseTree::Name(name) => leaf(Some(plain(&name.ident)), Some(plain(&name.ident))),
        UseTree::Rename(name) => leaf(Some(plain(&name.rename)), Some(plain(&name.ident))),
        UseTree::Glob(_) => leaf(None, None),
        UseTree::Path(below) => {
            path.push(plain(&below.ident));
            leaves(&below.tree, path, is_private, found);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves(tree, path, is_private, found);
            }
        }
    }
}

/// Returns an identifier without `r#`.
pub(crate) fn plain(name: &proc_macro2::Ident) -> String {
    let name = name.to_string();
    name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
}

/// Returns true for names in the form of types, variants and constants.
pub(crate) fn is_capital(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Returns true if these attributes restrict an item to tests.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|a| a.path().is_ident("cfg"))
        .any(|a| a.parse_args::<Meta>().is_ok_and(|meta| needs_test(&meta)))
}

fn needs_test(meta: &Meta) -> bool {
    match meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let parse = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
            let Ok(parts) = list.parse_args_with(parse) else {
                return false;
            };
            if list.path.is_ident("all") {
                parts.iter().any(needs_test)
            } else {
                list.path.is_ident("any") && parts.iter().all(needs_test)
            }
        }
        Meta::NameValue(_) => false,
    }
}

fn defined_name(item: &Item) -> Option<(String, Definition)> {
    let (name, definition) = match item {
        Item::Const(item) => (&item.ident, Definition::Value),
        Item::Fn(item) => (&item.sig.ident, Definition::Value),
        Item::Static(item) => (&item.ident, Definition::Value),
        Item::Enum(item) => (&item.ident, Definition::Type),
        Item::Struct(item) => (&item.ident, Definition::Type),
        Item::Trait(item) => (&item.ident, Definition::Type),
        Item::TraitAlias(item) => (&item.ident, Definition::Type),
        Item::Type(item) => (&item.ident, Definition::Type),
        Item::Union(item) => (&item.ident, Definition::Type),
        _ => return None,
    };
    Some((plain(name), definition))
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
