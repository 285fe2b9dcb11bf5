//! Uses of items of one file in another one.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Item, Token};

use crate::circles::Graph;
use crate::resolve::{Target, resolve};
use crate::source::{
    Crate, Definition, FileId, ModuleId, attributes, imports, is_capital, is_test, plain,
};

/// Lines of one file that use items of another one, with the paths as written.
pub(crate) type Lines = BTreeMap<usize, BTreeSet<String>>;

/// All uses in a crate, from file to file.
#[derive(Default)]
pub(crate) struct Uses {
    pub(crate) lines: BTreeMap<(FileId, FileId), Lines>,
}

impl Uses {
    pub(crate) fn of(tree: &Crate) -> Self {
        let mut uses = Self::default();
        for module in 0..tree.modules.len() {
            let mut visitor = Visitor {
                tree,
                module,
                blocks: Vec::new(),
                uses: &mut uses,
            };
            for item in &tree.modules[module].items {
                visitor.visit_item(item);
            }
        }
        uses
    }

    pub(crate) fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in self.lines.keys() {
            graph.entry(*from).or_default().insert(*to);
        }
        graph
    }
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|s| plain(&s.ident)).collect()
}

struct Visitor<'a> {
    tree: &'a Crate,
    module: ModuleId,
    /// Names imported in the enclosing blocks.
    blocks: Vec<BTreeMap<String, Vec<String>>>,
    uses: &'a mut Uses,
}

impl Visitor<'_> {
    /// Records the target of a path, if another file of the crate defines it.
    fn note(&mut self, path: &[String], line: usize) {
        let Some(first) = path.first() else { return };
        let local = self.blocks.iter().rev().find_map(|names| names.get(first));
        let whole: Vec<String> = match local {
            Some(import) => import.iter().chain(&path[1..]).cloned().collect(),
            None => path.to_vec(),
        };
        for target in resolve(self.tree, self.module, &whole) {
            if let Target::Item(file) = target {
                self.note_file(file, path, line);
            }
        }
    }

    fn note_file(&mut self, to: FileId, path: &[String], line: usize) {
        let from = self.tree.modules[self.module].file;
        if from != to {
            let lines = self.uses.lines.entry((from, to)).or_default();
            lines.entry(line).or_default().insert(path.join("::"));
        }
    }

    /// Records the imports of a `use` themselves. Importing a module is no use of it, but importing
    /// all of its names is.
    fn note_imports(&mut self, item: &syn::ItemUse) {
        for import in imports(item) {
            self.note(&import.path, import.line);
            if import.name.is_none() {
                for target in resolve(self.tree, self.module, &import.path) {
                    if let Target::Module(id) = target {
                        self.note_file(self.tree.modules[id].file, &import.path, import.line);
                    }
                }
            }
        }
    }

    /// Records the paths in the body of a macro, which may be anything.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_colons = |at: usize| {
            [at, at + 1].iter().all(
                |at| matches!(tokens.get(*at), Some(TokenTree::Punct(mark)) if mark.as_char() == ':'),
            )
        };
        let is_after = |at: usize, character: char| {
            at > 0
                && matches!(&tokens[at - 1], TokenTree::Punct(mark) if mark.as_char() == character)
        };
        // A field, a method, or the name of another crate after a leading `::`.
        let is_inner = |at: usize| is_after(at, '.') || (at > 1 && is_colons(at - 2));
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                TokenTree::Ident(first) if !is_inner(at) => {
                    let line = first.span().start().line;
                    let mut path = vec![plain(first)];
                    while is_colons(at + 1)
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        path.push(plain(next));
                        at += 3;
                    }
                    let is_call = matches!(tokens.get(at + 1),
                        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                    let is_variable = path.len() == 1 && is_after(at, '$') && path[0] != "crate";
                    if (path.len() > 1 || is_call || is_capital(&path[0])) && !is_variable {
                        self.note(&path, line);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_imports(item);
    }

    fn visit_impl_item_fn(&mut self, method: &'ast syn::ImplItemFn) {
        if !is_test(&method.attrs) {
            visit::visit_impl_item_fn(self, method);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let mut names = BTreeMap::new();
        for statement in &block.stmts {
            if let syn::Stmt::Item(Item::Use(item)) = statement {
                let named = imports(item).into_iter();
                names.extend(named.filter_map(|i| Some((i.name?, i.path))));
            }
        }
        // The first name of an import is looked up outside of the block.
        for item in &block.stmts {
            if let syn::Stmt::Item(Item::Use(item)) = item {
                self.note_imports(item);
            }
        }
        self.blocks.push(names);
        for statement in &block.stmts {
            if !matches!(statement, syn::Stmt::Item(Item::Use(_))) {
                self.visit_stmt(statement);
            }
        }
        self.blocks.pop();
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.note(&names(path), path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.ident.is_some() {
            self.note_tokens(item.mac.tokens.clone());
        } else {
            self.visit_macro(&item.mac);
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.note_macro(&call.path);
        let expressions = Punctuated::<Expr, Token![,]>::parse_terminated;
        match call.parse_body_with(expressions) {
            Ok(parsed) => parsed.iter().for_each(|e| self.visit_foreign_expr(e)),
            Err(_) => self.note_tokens(call.tokens.clone()),
        }
    }
}

impl Visitor<'_> {
    /// Visits an expression of a macro's body, which lives no longer than the visit.
    fn visit_foreign_expr(&mut self, expression: &Expr) {
        Visit::visit_expr(self, expression);
    }

    /// Records a use of a macro. Its name is known in the whole crate after its definition, without
    /// an import.
    fn note_macro(&mut self, path: &syn::Path) {
        let line = path.span().start().line;
        let names = names(path);
        if resolve(self.tree, self.module, &names).is_empty()
            && let [name] = names.as_slice()
        {
            for module in &self.tree.modules {
                let is_here = module.items.iter().any(
                    |item| matches!(item, Item::Macro(m) if m.ident.as_ref().is_some_and(|i| i == name)),
                );
                if is_here && matches!(module.names[name][0], Definition::Value) {
                    self.note_file(module.file, &names, line);
                }
            }
        } else if path.leading_colon.is_none() {
            self.note(&names, line);
        }
    }
}
